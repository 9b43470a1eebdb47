package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/netguard"
)

// Budgets of calls, from the providers' own route timeouts.
const (
	// UnaryBudget bounds most calls.
	UnaryBudget = 30 * time.Second
	// CreateBudget bounds creating a sandbox.
	CreateBudget = 90 * time.Second
	// WakeBudget bounds connecting and pausing, which some providers answer after two minutes.
	WakeBudget = 130 * time.Second
	// SnapshotBudget bounds snapshots and deleting templates.
	SnapshotBudget = 250 * time.Second
	// HealthBudget bounds looking whether anybody is there.
	HealthBudget = 5 * time.Second
)

// maxBody bounds what is read of a reply, maxAttempts how often a call is made, and
// maxWait how long a server may make us wait before the next attempt.
const (
	maxBody     = 16 << 20
	maxAttempts = 4
	maxWait     = 30 * time.Second
)

// Options of a Client.
type Options struct {
	// Provider names the plugin in errors.
	Provider string
	// BaseURL is the control plane's address, without a slash at its end.
	BaseURL string
	// Header holds credentials and is sent with every call but those marked Open.
	Header http.Header
	// HTTP makes the requests. It must be guarded and follow no redirects.
	HTTP *http.Client
	// Secrets never appear in an error, whatever a server echoes.
	Secrets []string
	// Sleep waits between attempts; nil means a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Client makes calls. It is safe for concurrent use and holds no goroutine.
type Client struct {
	o Options
}

// New returns a client.
func New(o Options) *Client {
	if o.Sleep == nil {
		o.Sleep = Sleep
	}
	o.BaseURL = strings.TrimRight(o.BaseURL, "/")
	return &Client{o: o}
}

// WithSleep returns a client that waits otherwise.
func (c *Client) WithSleep(sleep func(ctx context.Context, d time.Duration) error) *Client {
	o := c.o
	o.Sleep = sleep
	return &Client{o: o}
}

// Sleep waits as the options say.
func (c *Client) Sleep(ctx context.Context, d time.Duration) error { return c.o.Sleep(ctx, d) }

// Sleep waits for d or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Call is one request.
type Call struct {
	// Op is the backend method on whose behalf it is made.
	Op string
	// Class chooses the column of the error map.
	Class fault.Class
	// Method and Path; parts of the path that are not ours are escaped already.
	Method, Path string
	Query        url.Values
	// Body is sent as JSON; nil sends none.
	Body any
	// Out receives the reply's JSON; nil ignores it.
	Out any
	// Budget bounds the call with its repetitions; zero means UnaryBudget.
	Budget time.Duration
	// Open leaves the credentials out.
	Open bool
	// Hide are secrets that the call holds, or its subject has: a server that repeats
	// them does not get them into an error.
	Hide []string
}

// Reply is what came with a success.
type Reply struct {
	Status int
	Header http.Header
}

// Do makes a call. Its error is the end of ctx, wrapped, or a *backend.Error of
// PlaneControl. A reading call is repeated when the server did not answer properly;
// any call is when the connection was refused, or when the server said after how many
// seconds it may be (429 and 503): nothing happened then.
func (c *Client) Do(ctx context.Context, call Call) (Reply, error) {
	var body []byte
	if call.Body != nil {
		var err error
		if body, err = json.Marshal(call.Body); err != nil {
			return Reply{}, backend.Errorf(backend.KindInternal, call.Op, "encode the request: %w", err)
		}
	}
	if call.Budget == 0 {
		call.Budget = UnaryBudget
	}
	bounded, cancel := context.WithTimeout(ctx, call.Budget)
	defer cancel()
	for attempt := 1; ; attempt++ {
		reply, err := c.once(bounded, call, body)
		if err == nil {
			return reply, nil
		}
		if ctx.Err() != nil {
			return reply, fmt.Errorf("%s: %s: %w", c.o.Provider, call.Op, ctx.Err())
		}
		wait, again := c.again(call, err, attempt)
		if deadline, _ := bounded.Deadline(); !again || time.Until(deadline) <= wait || c.o.Sleep(bounded, wait) != nil {
			if ctx.Err() != nil {
				return reply, fmt.Errorf("%s: %s: %w", c.o.Provider, call.Op, ctx.Err())
			}
			return reply, err
		}
	}
}

// again says whether and after how long a failed call may be made once more.
func (c *Client) again(call Call, err error, attempt int) (time.Duration, bool) {
	var e *backend.Error
	if attempt >= maxAttempts || !errors.As(err, &e) {
		return 0, false
	}
	backoff := time.Duration(1<<(attempt-1))*200*time.Millisecond + rand.N(100*time.Millisecond)
	switch {
	case (e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable) && e.RetryAfter > 0:
		return e.RetryAfter, e.RetryAfter <= maxWait
	case errors.Is(err, syscall.ECONNREFUSED):
		return backoff, true
	case call.Method == http.MethodGet && e.Kind == backend.KindUnavailable && attempt < maxAttempts-1:
		return backoff, true
	}
	return 0, false
}

func (c *Client) once(ctx context.Context, call Call, body []byte) (Reply, error) {
	target := c.o.BaseURL + call.Path
	if len(call.Query) > 0 {
		target += "?" + call.Query.Encode()
	}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, target, content)
	if err != nil {
		return Reply{}, c.fail(call, backend.KindInvalidRequest, 0, "the control plane's address is malformed", nil)
	}
	if !call.Open {
		for name, values := range c.o.Header {
			req.Header[name] = values
		}
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "caisson-"+c.o.Provider)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.o.HTTP.Do(req)
	if err != nil {
		if resp != nil { // a redirect that was not followed
			_ = resp.Body.Close()
			return Reply{Status: resp.StatusCode}, c.fail(call, backend.KindInternal, resp.StatusCode, "the control plane redirects: set its own address", nil)
		}
		return Reply{}, c.transport(ctx, call, err)
	}
	defer resp.Body.Close()
	reply := Reply{Status: resp.StatusCode, Header: resp.Header}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return reply, c.transport(ctx, call, err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return reply, c.refused(call, reply, text)
	}
	if call.Out == nil || resp.StatusCode == http.StatusNoContent {
		return reply, nil
	}
	if len(text) > maxBody {
		return reply, c.fail(call, backend.KindInternal, reply.Status, "the reply is larger than 16 MiB", nil)
	}
	if json.Unmarshal(text, call.Out) != nil {
		what := "the reply is not the JSON that was expected"
		if fault.Parse(reply.Status, reply.Header, text).Page {
			what = "something else answered with a page: is this the control plane's address?"
		}
		return reply, c.fail(call, backend.KindInternal, reply.Status, what, nil)
	}
	return reply, nil
}

// transport maps what went wrong without an answer.
func (c *Client) transport(ctx context.Context, call Call, err error) error {
	var blocked *netguard.BlockedError
	if errors.As(err, &blocked) {
		e := c.fail(call, backend.KindInvalidRequest, 0, "the control plane may not be reached: "+blocked.Reason, nil)
		e.Subject = backend.SubjectConfig
		return e
	}
	if ctx.Err() != nil {
		return c.fail(call, backend.KindTimeout, 0, "the control plane did not answer in time", nil)
	}
	// The error of http.Client holds the URL, whose query has metadata in it.
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return c.fail(call, backend.KindUnavailable, 0, "the control plane cannot be reached", err)
}

// refused makes the error of an answer that is no success.
func (c *Client) refused(call Call, reply Reply, text []byte) error {
	e := fault.Control(c.o.Provider, call.Op, call.Class, fault.Parse(reply.Status, reply.Header, text))
	if e.Kind == backend.KindUnsupported { // which of the provider's parts is missing
		e.Message = call.Method + " " + call.Path + ": " + e.Message
	}
	e.Message = redact(c.Redact(e.Message), call.Hide)
	return e
}

// fail makes an error that no answer of the API is behind. It proves nothing.
func (c *Client) fail(call Call, kind backend.Kind, status int, message string, cause error) *backend.Error {
	return &backend.Error{
		Kind: kind, Op: call.Op, Provider: c.o.Provider, Plane: backend.PlaneControl, Status: status, Message: c.Redact(message), Cause: cause,
	}
}

// Redact removes the secrets of the config from a text.
func (c *Client) Redact(text string) string { return redact(text, c.o.Secrets) }

func redact(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) >= 4 { // shorter ones are in every text
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	return text
}
