package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/netguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// planted is a key that no error may repeat.
const planted = "e2b_canary0123456789"

// answer is one reply of a scripted server.
type answer struct {
	status int
	header map[string]string
	body   string
}

// scripted serves answers in order, the last one for ever, and counts.
func scripted(t testing.TB, answers ...answer) (*Client, *atomic.Int64, *[]time.Duration) {
	t.Helper()
	var calls atomic.Int64
	slept := []time.Duration{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a := answers[min(int(calls.Add(1)), len(answers))-1]
		if a.status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		for k, v := range a.header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(a.status)
		fmt.Fprint(w, a.body)
	}))
	guard, err := netguard.New(netguard.Policy{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	client := guard.Client(netguard.TransportOptions{})
	t.Cleanup(func() { client.CloseIdleConnections(); srv.Close() })
	return New(Options{
		Provider: "fake", BaseURL: srv.URL, Header: http.Header{"X-Api-Key": {planted}}, HTTP: client, Secrets: []string{planted},
		Sleep: func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil },
	}), &calls, &slept
}

func msg(text string) string { return fmt.Sprintf(`{"code":1,"message":%q}`, text) }

func coded(code string) string { return fmt.Sprintf(`{"code":1,"message":"m","error_code":%q}`, code) }

const htmlPage = "<!DOCTYPE html><html><body>Please log in</body></html>"

// TestErrorMap is the map from what a control plane answers to a kind, by what the
// call was about, and whether it may be taken as proof that a sandbox is gone.
func TestErrorMap(t *testing.T) {
	const (
		invalid, auth, unsupported = backend.KindInvalidRequest, backend.KindAuthentication, backend.KindUnsupported
		notFound, terminal         = backend.KindNotFound, backend.KindTerminal
		conflict, capacity         = backend.KindConflict, backend.KindCapacity
		timeout, unavailable       = backend.KindTimeout, backend.KindUnavailable
		internal                   = backend.KindInternal
	)
	for _, c := range []struct {
		status                    int
		body                      string
		create, sandbox, template backend.Kind
		gone                      bool
	}{
		{400, msg("Timeout cannot be greater than 1 hours"), invalid, invalid, invalid, false},
		{400, msg("validation error: request body has an error"), invalid, invalid, invalid, false},
		{400, "Failed to parse the request body as JSON", invalid, invalid, invalid, false},
		{400, msg("cannot delete template 'x' because there are paused sandboxes using it"), invalid, invalid, conflict, false},
		{400, msg("build is not in waiting state"), invalid, invalid, conflict, false},
		{400, msg("Build '0f' not found"), invalid, invalid, notFound, false},
		{413, "", invalid, invalid, invalid, false},
		{415, "Expected request with `Content-Type: application/json`", invalid, invalid, invalid, false},
		{422, "Failed to deserialize the JSON body into the target type", invalid, invalid, invalid, false},
		{401, msg("invalid API key"), auth, auth, auth, false},
		{403, msg("team is blocked"), auth, auth, auth, false},
		{403, msg("volumes are not enabled for this team"), unsupported, unsupported, auth, false},
		{403, msg("egress proxy feature is not enabled"), unsupported, unsupported, auth, false},
		{404, msg("sandbox \"x\" doesn't exist or you don't have access to it"), invalid, notFound, notFound, true},
		{404, `{"code":404,"message":"validation error: no matching operation was found"}`, unsupported, unsupported, unsupported, false},
		{404, "404 page not found", unsupported, unsupported, unsupported, false},
		{404, "", unsupported, unsupported, unsupported, false},
		{404, htmlPage, unsupported, unsupported, unsupported, false},
		{404, "[]", unsupported, unsupported, unsupported, false},
		{404, "{}", unsupported, unsupported, unsupported, false},
		{405, "", unsupported, unsupported, unsupported, false},
		{501, msg("not implemented"), unsupported, unsupported, unsupported, false},
		{408, "", timeout, timeout, timeout, false},
		{504, msg("deadline exceeded"), timeout, timeout, timeout, false},
		{504, coded("sandbox_placement_timeout"), capacity, capacity, capacity, false},
		{409, msg("sandbox is being killed"), conflict, conflict, conflict, false},
		{409, coded("sandbox_start_in_flight"), conflict, conflict, conflict, false},
		{409, msg("resume rejected by paused_resource_release_ratio policy"), capacity, capacity, capacity, false},
		{410, msg("gone"), terminal, terminal, notFound, true},
		{410, `{"error":"gone"}`, terminal, terminal, notFound, true},
		{410, htmlPage, unavailable, unavailable, notFound, false},
		{429, msg("you have reached the maximum number of concurrent E2B sandboxes"), capacity, capacity, capacity, false},
		{500, msg("internal"), unavailable, unavailable, unavailable, false},
		{500, msg("sandbox not found"), unavailable, unavailable, unavailable, false},
		{500, coded("sandbox_create_failed"), unavailable, unavailable, unavailable, false},
		{502, htmlPage, unavailable, unavailable, unavailable, false},
		{503, msg("no"), unavailable, unavailable, unavailable, false},
		{503, coded("sandbox_capacity_unavailable"), capacity, capacity, capacity, false},
		{503, coded("sandbox_no_compatible_node"), capacity, capacity, capacity, false},
		{503, coded("sandbox_filesystem_boot_unconfirmed"), unavailable, unavailable, unavailable, false},
		{507, "", capacity, capacity, capacity, false},
		{402, msg("pay"), internal, internal, internal, false},
		{418, "", internal, internal, internal, false},
		{302, "", internal, internal, internal, false},
		{200, "not json", internal, internal, internal, false},
		{200, htmlPage, internal, internal, internal, false},
		{200, `"text"`, internal, internal, internal, false},
		{0, "", unavailable, unavailable, unavailable, false},
	} {
		for class, want := range map[fault.Class]backend.Kind{fault.Create: c.create, fault.Sandbox: c.sandbox, fault.Template: c.template} {
			header := map[string]string{"Content-Type": "application/json"}
			switch {
			case strings.HasPrefix(c.body, "<"):
				header["Content-Type"] = "text/html"
			case !strings.HasPrefix(c.body, "{"):
				header["Content-Type"] = "text/plain"
			}
			if c.status == http.StatusFound {
				header["Location"] = "http://127.0.0.1:1/login"
			}
			api, _, _ := scripted(t, answer{c.status, header, c.body})
			var out map[string]any
			_, err := api.Do(t.Context(), Call{Op: "Op", Class: class, Method: http.MethodPost, Path: "/x", Body: struct{}{}, Out: &out})
			var e *backend.Error
			if !errors.As(err, &e) || e.Kind != want || e.Plane != backend.PlaneControl || e.Provider != "fake" || e.Status != c.status {
				t.Errorf("%d %s, class %d: %#v, want %s", c.status, c.body, class, err, want)
				continue
			}
			if got := backend.ProvesGone(err); got != (c.gone && class == fault.Sandbox) {
				t.Errorf("%d %s, class %d proves that a sandbox is gone: %v", c.status, c.body, class, got)
			}
		}
	}
}

// TestNoAnswer: what is wrong before anybody answers.
func TestNoAnswer(t *testing.T) {
	guard, err := netguard.New(netguard.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	call := Call{Op: "Op", Class: fault.Sandbox, Method: http.MethodGet, Path: "/x"}
	sleep := func(context.Context, time.Duration) error { return nil }
	blocked := New(Options{Provider: "fake", BaseURL: "http://169.254.169.254", HTTP: guard.Client(netguard.TransportOptions{}), Sleep: sleep})
	if _, err := blocked.Do(t.Context(), call); backend.KindOf(err) != backend.KindInvalidRequest || backend.ProvesGone(err) {
		t.Errorf("a metadata address: %v", err)
	}
	private, err := netguard.New(netguard.Policy{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	refused := New(Options{Provider: "fake", BaseURL: "http://127.0.0.1:1", HTTP: private.Client(netguard.TransportOptions{}), Sleep: sleep})
	if _, err := refused.Do(t.Context(), call); backend.KindOf(err) != backend.KindUnavailable {
		t.Errorf("a refused connection: %v", err)
	}

	block := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-block:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(block)
	client := private.Client(netguard.TransportOptions{})
	defer client.CloseIdleConnections()
	slow := New(Options{Provider: "fake", BaseURL: srv.URL, HTTP: client, Sleep: sleep})
	call.Budget = 20 * time.Millisecond
	if _, err := slow.Do(t.Context(), call); backend.KindOf(err) != backend.KindTimeout || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("our own budget: %v", err)
	}
	call.Budget = 0
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := slow.Do(ctx, call); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the caller's deadline: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := slow.Do(ctx, call); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled caller: %v", err)
	}
}

// TestRetries: what is made again, how often, and after what.
func TestRetries(t *testing.T) {
	ok := answer{200, nil, `{}`}
	after := func(status int, seconds string) answer {
		return answer{status, map[string]string{"Retry-After": seconds}, msg("later")}
	}
	for name, c := range map[string]struct {
		method  string
		answers []answer
		calls   int
		kind    backend.Kind
		slept   time.Duration
	}{
		"a GET after 502":                {http.MethodGet, []answer{{502, nil, ""}, ok}, 2, "", 0},
		"a GET after a cut":              {http.MethodGet, []answer{{}, ok}, 2, "", 0},
		"a GET gives up":                 {http.MethodGet, []answer{{502, nil, ""}}, 3, backend.KindUnavailable, 0},
		"a POST after 502":               {http.MethodPost, []answer{{502, nil, ""}, ok}, 1, backend.KindUnavailable, 0},
		"a POST after a cut":             {http.MethodPost, []answer{{}, ok}, 1, backend.KindUnavailable, 0},
		"429 that says when":             {http.MethodPost, []answer{after(429, "3"), ok}, 2, "", 3 * time.Second},
		"503 that says when":             {http.MethodPost, []answer{after(503, "2"), ok}, 2, "", 2 * time.Second},
		"429 that does not":              {http.MethodPost, []answer{{429, nil, msg("concurrent")}, ok}, 1, backend.KindCapacity, 0},
		"429 with a date":                {http.MethodPost, []answer{after(429, "Wed, 21 Oct 2026 07:28:00 GMT"), ok}, 1, backend.KindCapacity, 0},
		"429 for ever":                   {http.MethodPost, []answer{after(429, "1")}, 4, backend.KindCapacity, time.Second},
		"429 longer than anybody waits":  {http.MethodPost, []answer{after(429, "3600"), ok}, 1, backend.KindCapacity, 0},
		"a 404 is an answer":             {http.MethodGet, []answer{{404, nil, msg("x")}, ok}, 1, backend.KindNotFound, 0},
		"a DELETE after 502 is no proof": {http.MethodDelete, []answer{{502, nil, ""}, ok}, 1, backend.KindUnavailable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			api, calls, slept := scripted(t, c.answers...)
			call := Call{Op: "Op", Class: fault.Sandbox, Method: c.method, Path: "/x"}
			_, err := api.Do(t.Context(), call)
			if int(calls.Load()) != c.calls || err == nil != (c.kind == "") || err != nil && backend.KindOf(err) != c.kind {
				t.Errorf("%d calls, %v; want %d, %s", calls.Load(), err, c.calls, c.kind)
			}
			if c.slept > 0 && (*slept)[0] != c.slept {
				t.Errorf("slept %v, want %v first", *slept, c.slept)
			}
		})
	}
}

// TestSecrets: a server that echoes what it was sent does not get it into an error.
func TestSecrets(t *testing.T) {
	for _, a := range []answer{
		{401, nil, msg("key " + planted + " is wrong")},
		{400, map[string]string{"Content-Type": "text/plain"}, "X-API-Key: " + planted},
		{500, nil, coded(planted)},
	} {
		api, _, _ := scripted(t, a)
		_, err := api.Do(t.Context(), Call{Op: "Op", Class: fault.Create, Method: http.MethodPost, Path: "/x"})
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), planted) {
			t.Errorf("the error holds the key: %#v", err)
		}
	}
	s := Sandbox{SandboxID: "i1", EnvdAccessToken: planted, TrafficAccessToken: planted}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", s, s, s), planted) {
		t.Error("printing a sandbox prints its tokens")
	}
}
