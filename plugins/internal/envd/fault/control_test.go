package fault_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// reply makes one of a status, a content type and a body.
func reply(status int, kind, body string) *fault.Reply {
	h := http.Header{}
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	return fault.Parse(status, h, []byte(body))
}

const (
	asJSON = "application/json"
	asText = "text/plain; charset=utf-8"
	asHTML = "text/html"
)

func said(code int, message string) string {
	return fmt.Sprintf(`{"code":%d,"message":%q}`, code, message)
}

// TestControl is the map of the control plane: what each status means to each class
// of calls, and whether it proves that a sandbox is gone.
func TestControl(t *testing.T) {
	const (
		notFound, terminal, authentication = backend.KindNotFound, backend.KindTerminal, backend.KindAuthentication
		invalid, unsupported, conflict     = backend.KindInvalidRequest, backend.KindUnsupported, backend.KindConflict
		capacity, timeout, unavailable     = backend.KindCapacity, backend.KindTimeout, backend.KindUnavailable
		internal                           = backend.KindInternal
	)
	for _, row := range []struct {
		name                                         string
		status                                       int
		kind, body                                   string
		create, sandbox, listing, template, snapshot backend.Kind
		gone                                         bool // for the class of sandbox
	}{
		{"invalid", 400, asJSON, said(400, "Timeout cannot be greater than 24 hours"), invalid, invalid, invalid, invalid, invalid, false},
		{"invalid, plain text", 422, asText, "Failed to deserialize the JSON body", invalid, invalid, invalid, invalid, invalid, false},
		{"content type", 415, asText, "Expected request with `Content-Type: application/json`", invalid, invalid, invalid, invalid, invalid, false},
		{"too large", 413, "", "", invalid, invalid, invalid, invalid, invalid, false},
		{"template in use", 400, asJSON, said(400, "cannot delete template because there are paused sandboxes using it"), invalid, invalid, invalid, conflict, conflict, false},
		{"build not waiting", 400, asJSON, said(400, "build is not in waiting state"), invalid, invalid, invalid, conflict, conflict, false},
		{"unknown build", 400, asJSON, said(400, "Build 'x' not found"), invalid, invalid, invalid, notFound, notFound, false},
		{"bad key", 401, asJSON, said(401, "Invalid API key"), authentication, authentication, authentication, authentication, authentication, false},
		{"blocked", 403, asJSON, said(403, "Team is blocked"), authentication, authentication, authentication, authentication, authentication, false},
		{"volumes off", 403, asJSON, said(403, "use of volumes is not enabled"), unsupported, unsupported, unsupported, authentication, authentication, false},
		{"not found", 404, asJSON, said(404, "Sandbox \"i1\" doesn't exist"), invalid, notFound, notFound, notFound, notFound, true},
		{"no route, validated", 404, asJSON, said(404, "validation error: no matching operation was found"), unsupported, unsupported, unsupported, unsupported, unsupported, false},
		{"no route, text", 404, asText, "404 page not found", unsupported, unsupported, unsupported, unsupported, unsupported, false},
		{"no route, empty", 404, "", "", unsupported, unsupported, unsupported, unsupported, unsupported, false},
		{"no route, empty JSON", 404, asJSON, "{}", unsupported, unsupported, unsupported, unsupported, unsupported, false},
		{"no route, a page", 404, asHTML, "<html>nothing here</html>", unsupported, unsupported, unsupported, unsupported, unsupported, false},
		{"no route, a page that says JSON", 404, asJSON, "<!DOCTYPE html>", unsupported, unsupported, unsupported, unsupported, unsupported, false},
		{"method", 405, "", "", unsupported, unsupported, unsupported, unsupported, unsupported, false},
		{"not implemented", 501, asJSON, said(501, "not implemented"), unsupported, unsupported, unsupported, unsupported, unsupported, false},
		{"route timeout", 408, "", "", timeout, timeout, timeout, timeout, timeout, false},
		{"gateway timeout", 504, asHTML, "<html>504</html>", timeout, timeout, timeout, timeout, timeout, false},
		{"placement timeout", 504, asJSON, `{"code":504,"message":"slow","error_code":"sandbox_placement_timeout"}`, capacity, capacity, capacity, capacity, capacity, false},
		{"conflict", 409, asJSON, said(409, "Sandbox is already paused"), conflict, conflict, conflict, conflict, conflict, false},
		{"release ratio", 409, asJSON, said(409, "resume rejected by paused_resource_release_ratio policy"), capacity, capacity, capacity, capacity, capacity, false},
		{"gone", 410, asJSON, `{"error":"gone"}`, terminal, terminal, unavailable, notFound, notFound, true},
		{"gone, empty", 410, "", "", terminal, terminal, unavailable, notFound, notFound, true},
		{"gone, a page", 410, asHTML, "<html>moved on</html>", unavailable, unavailable, unavailable, notFound, notFound, false},
		{"limit", 429, asJSON, said(429, "you have reached the maximum number of concurrent E2B sandboxes"), capacity, capacity, capacity, capacity, capacity, false},
		{"internal", 500, asJSON, said(500, "internal"), unavailable, unavailable, unavailable, unavailable, unavailable, false},
		{"internal with not found", 500, asJSON, said(500, "sandbox not found (130404)"), unavailable, unavailable, unavailable, unavailable, unavailable, false},
		{"bad gateway", 502, asHTML, "<html>502</html>", unavailable, unavailable, unavailable, unavailable, unavailable, false},
		{"busy", 503, asJSON, said(503, "node busy"), unavailable, unavailable, unavailable, unavailable, unavailable, false},
		{"no capacity", 503, asJSON, `{"code":503,"message":"x","error_code":"sandbox_capacity_unavailable"}`, capacity, capacity, capacity, capacity, capacity, false},
		{"no node", 503, asJSON, `{"code":503,"message":"x","error_code":"sandbox_no_compatible_node"}`, capacity, capacity, capacity, capacity, capacity, false},
		{"no node, through a gateway", 502, asJSON, `{"code":502,"message":"x","error_code":"sandbox_no_compatible_node"}`, capacity, capacity, capacity, capacity, capacity, false},
		{"storage", 507, "", "", capacity, capacity, capacity, capacity, capacity, false},
		{"redirect", 302, asHTML, "<html>log in</html>", internal, internal, internal, internal, internal, false},
		{"teapot", 418, "", "", internal, internal, internal, internal, internal, false},
		{"success that is none", 200, asJSON, `{"sandboxID":""}`, internal, internal, internal, internal, internal, false},
		{"success that is a page", 200, asHTML, "<html>log in</html>", unavailable, unavailable, unavailable, unavailable, unavailable, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := reply(row.status, row.kind, row.body)
			for class, want := range map[fault.Class]backend.Kind{
				fault.Create: row.create, fault.Sandbox: row.sandbox, fault.Listing: row.listing,
				fault.Template: row.template, fault.Snapshot: row.snapshot,
			} {
				e := fault.Control("p", "Op", class, r)
				if e.Kind != want || e.Plane != backend.PlaneControl || e.Status != row.status {
					t.Errorf("class %d: %q, plane %q, status %d, want %q: %v", class, e.Kind, e.Plane, e.Status, want, e)
				}
				if got, want := backend.ProvesGone(e), class == fault.Sandbox && row.gone; got != want {
					t.Errorf("class %d: proves gone: %v, want %v", class, got, want)
				}
			}
		})
	}
}

// TestTransport: who got no answer knows nothing.
func TestTransport(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fault.Transport(ended, "p", "Op", backend.PlaneControl, errors.New("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if err := fault.Transport(t.Context(), "p", "Op", backend.PlaneControl, errors.New("connection refused")); backend.KindOf(err) != backend.KindUnavailable || backend.ProvesGone(err) {
		t.Errorf("refused: %v", err)
	}
	if err := fault.Transport(t.Context(), "p", "Op", backend.PlaneControl, context.DeadlineExceeded); backend.KindOf(err) != backend.KindTimeout {
		t.Errorf("out of time: %v", err)
	}
}

// TestMessages: what servers say is shortened, and made one line.
func TestMessages(t *testing.T) {
	r := reply(500, asJSON, fmt.Sprintf(`{"message":"a\nb\u0000%s"}`, strings.Repeat("ü", 1000)))
	if len(r.Message) > 520 || strings.ContainsAny(r.Message, "\n\x00") || !strings.HasPrefix(r.Message, "a b ü") {
		t.Errorf("message of %d bytes: %q", len(r.Message), r.Message)
	}
	if r := reply(500, asJSON, `{"detail":"from another framework"}`); r.Message != "from another framework" {
		t.Errorf("message %q", r.Message)
	}
	for header, want := range map[string]time.Duration{"2": 2 * time.Second, "": 0, "-1": 0, "Wed, 21 Oct 2015 07:28:00 GMT": 0, "99999999": time.Hour} {
		if r := fault.Parse(503, http.Header{"Retry-After": {header}}, nil); r.RetryAfter != want {
			t.Errorf("Retry-After %q is %v, want %v", header, r.RetryAfter, want)
		}
	}
}
