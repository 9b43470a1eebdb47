package envd

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/filesystempb/filesystempbconnect"
	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb/processpbconnect"
	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// Client is the data plane of one config: one pool of connections, and what is known
// of how each sandbox is reached. It is safe for concurrent use. Its methods that
// backend.Backend has too keep to that contract; the config of a backend.Ref is not
// looked at.
type Client struct {
	opts      Options
	address   string // what is dialled; empty: the host
	secure    bool
	transport *http.Transport
	turns     *generic.Turns
	keeper    *generic.Keeper

	mu    sync.Mutex
	boxes map[string]*box
}

// box is how one sandbox is reached.
type box struct {
	id       string
	endpoint Endpoint
	host     string // without a port of the address: "49983-ID.DOMAIN"
	http     *http.Client
	process  processpbconnect.ProcessClient
	files    filesystempbconnect.FilesystemClient
	base     string // "https://HOST"
	closing  closing
}

// New checks options and returns a client, which dials nothing yet.
func New(opts Options) (*Client, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	opts.defaults()
	address, secure, err := gatewayAddress(opts.Gateway)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: opts, address: address, secure: secure, turns: generic.NewTurns(0), boxes: make(map[string]*box)}
	c.transport = c.newTransport()
	c.keeper = generic.NewKeeper(c.Run)
	return c, nil
}

// Close ends detached runs and closes idle connections. Other calls under way go on to
// their ends.
func (c *Client) Close() {
	c.keeper.Close()
	c.transport.CloseIdleConnections()
}

// Bind remembers how a sandbox is reached, after it was made or connected to. Empty
// members leave what was known: providers issue some tokens only once.
func (c *Client) Bind(id string, e Endpoint) error {
	if !idForm.MatchString(id) {
		return c.fail("Connect", backend.KindInternal, "the provider's sandbox id has a form that cannot become a host name")
	}
	if e.Domain != "" && !domainForm.MatchString(e.Domain) {
		return c.fail("Connect", backend.KindInternal, "the provider's sandbox domain is no host name")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.boxes[id]
	if old != nil {
		e = old.endpoint.merge(e)
		if old.endpoint == e {
			return nil
		}
	}
	c.boxes[id] = c.newBox(id, e)
	return nil
}

// merge returns e with the members of next that are set.
func (e Endpoint) merge(next Endpoint) Endpoint {
	for _, m := range []struct{ to, from *string }{
		{&e.Domain, &next.Domain},
		{&e.Version, &next.Version},
		{&e.AccessToken, &next.AccessToken},
		{&e.TrafficToken, &next.TrafficToken},
	} {
		if *m.from != "" {
			*m.to = *m.from
		}
	}
	return e
}

// Forget drops what is known of a sandbox that has ended, its tokens above all.
func (c *Client) Forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.boxes, id)
}

// Endpoint returns what is known of a sandbox, false when nothing is.
func (c *Client) Endpoint(id string) (Endpoint, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.boxes[id]
	if b == nil {
		return Endpoint{}, false
	}
	return b.endpoint, true
}

// Refresh drops idle connections: after a sandbox was resumed or rolled back they may
// lead to what it was.
func (c *Client) Refresh() { c.transport.CloseIdleConnections() }

// newBox prepares the clients of a sandbox.
func (c *Client) newBox(id string, e Endpoint) *box {
	b := &box{id: id, endpoint: e}
	b.host = c.host(id, e, Port)
	scheme := "http"
	if c.secure {
		scheme = "https"
	}
	b.base = scheme + "://" + b.host
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.http = &http.Client{Transport: &daemonTransport{c: c, b: b}, CheckRedirect: refuse}
	options := []connect.ClientOption{connect.WithReadMaxBytes(maxMessage)}
	if c.opts.JSON {
		options = append(options, connect.WithProtoJSON())
	}
	typed := &http.Client{Transport: &typedTransport{b.http.Transport}, CheckRedirect: refuse}
	b.process = processpbconnect.NewProcessClient(typed, b.base, options...)
	b.files = filesystempbconnect.NewFilesystemClient(typed, b.base, options...)
	return b
}

// maxMessage bounds one message of the daemon.
const maxMessage = 8 << 20

// host is the logical name of a port of a sandbox.
func (c *Client) host(id string, e Endpoint, port int) string {
	domain := e.Domain
	if domain == "" {
		domain = c.opts.Domain
	}
	return fmt.Sprintf("%d-%s.%s", port, id, domain)
}

// fail makes an error about the data plane that nobody answered with.
func (c *Client) fail(op string, kind backend.Kind, format string, args ...any) *backend.Error {
	e := backend.Errorf(kind, op, format, args...)
	e.Provider, e.Plane = c.opts.Provider, backend.PlaneData
	return e
}

// box returns how to reach a sandbox, asking the control plane about one that is not
// known here, as after a restart.
func (c *Client) box(ctx context.Context, op, id string) (*box, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	b := c.boxes[id]
	c.mu.Unlock()
	if b == nil {
		if _, err := c.locate(ctx, op, id); err != nil {
			return nil, err
		}
		c.mu.Lock()
		b = c.boxes[id]
		c.mu.Unlock()
		if b == nil {
			return nil, c.fail(op, backend.KindConflict, "the sandbox was deleted meanwhile")
		}
	}
	if c.opts.NeedToken && b.endpoint.AccessToken == "" {
		return nil, c.fail(op, backend.KindAuthentication, "the sandbox has no access token: it would be open to everybody; delete it and make another")
	}
	return b, nil
}

// locate asks the control plane where a sandbox is and remembers it. It fails unless
// the sandbox runs; changed says that the tokens or the domain are other ones now.
func (c *Client) locate(ctx context.Context, op, id string) (changed bool, err error) {
	loc, err := c.opts.Control.Locate(ctx, id)
	if err != nil {
		return false, err
	}
	switch loc.State {
	case backend.StateRunning, backend.StateUnknown:
	case backend.StateTerminated:
		e := c.fail(op, backend.KindTerminal, "the sandbox has ended")
		e.Subject, e.Plane = backend.SubjectSandbox, backend.PlaneControl
		return false, e
	default:
		e := c.fail(op, backend.KindConflict, "the sandbox is %s: connect to it first", loc.State)
		e.Subject, e.Plane = backend.SubjectSandbox, backend.PlaneControl
		return false, e
	}
	before, _ := c.Endpoint(id)
	if err := c.Bind(id, loc.Endpoint); err != nil {
		return false, err
	}
	after, _ := c.Endpoint(id)
	return before != after, nil
}

// Ready waits until the daemon of a sandbox answers, as long as ctx allows: right
// after a sandbox was made or resumed its port may not be open yet. On failure it
// says so as KindUnavailable, or as KindAuthentication where its token is refused;
// neither says anything about the sandbox.
func (c *Client) Ready(ctx context.Context, id string) error {
	b, err := c.box(ctx, "Connect", id)
	if err != nil {
		return err
	}
	return c.answers(ctx, b)
}

// Prove is Ready with members of the endpoint that may be wrong. They are remembered, as
// Bind would, when the daemon has answered.
func (c *Client) Prove(ctx context.Context, id string, e Endpoint) error {
	b, err := c.box(ctx, "Connect", id)
	if err != nil {
		return err
	}
	if err := c.answers(ctx, c.newBox(id, b.endpoint.merge(e))); err != nil {
		return err
	}
	return c.Bind(id, e)
}

// answers is Ready for a box that is known.
func (c *Client) answers(ctx context.Context, b *box) error {
	var last error
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if last = c.health(ctx, b); last == nil || backend.KindOf(last) == backend.KindAuthentication {
			return last // a token that is lost or wrong does not come back by waiting
		}
		select {
		case <-ctx.Done():
			return c.fail("Connect", backend.KindUnavailable, "the daemon in the sandbox does not answer; is it part of the template? last: %w", last)
		case <-time.After(wait):
			c.Refresh()
		}
	}
}

// health asks the daemon, once.
func (c *Client) health(ctx context.Context, b *box) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"/health", nil)
	if err != nil {
		return err
	}
	res, err := b.http.Do(req)
	if err != nil {
		return fault.Transport(ctx, c.opts.Provider, "Connect", backend.PlaneData, err)
	}
	if res.StatusCode == http.StatusNoContent {
		return res.Body.Close()
	}
	return fault.Data(c.opts.Provider, "Connect", "", fault.Read(res))
}

// dialGateway opens a connection to where host is served.
func (c *Client) dialGateway(ctx context.Context, network, host string) (net.Conn, error) {
	if c.address != "" {
		host = c.address
	}
	return c.opts.Dial(ctx, network, host)
}
