package fault_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// TestData is the map of the data plane. Nothing in it proves anything.
func TestData(t *testing.T) {
	for _, row := range []struct {
		name       string
		status     int
		kind, body string
		want       backend.Kind
		notRouted  bool
	}{
		{"paused or gone", 502, asJSON, `{"sandboxId":"i","message":"The sandbox was not found","code":502}`, backend.KindUnavailable, true},
		{"port closed", 502, asJSON, `{"sandboxId":"i","message":"The sandbox is running but port is not open","port":49983,"code":502}`, backend.KindUnavailable, true},
		{"transitioning", 409, asJSON, `{"message":"The sandbox is still transitioning","code":409}`, backend.KindConflict, true},
		{"traffic token", 403, asJSON, `{"message":"Missing or invalid traffic access token","code":403}`, backend.KindAuthentication, false},
		{"traffic token, empty", 403, "", "", backend.KindAuthentication, false},
		{"access token", 401, asJSON, said(401, "unauthorized access, please provide a valid access token"), backend.KindAuthentication, false},
		{"no account, files", 401, asJSON, said(401, "error looking up user 'x'"), backend.KindInvalidRequest, false},
		{"no account, protocol", 401, asJSON, `{"code":"unauthenticated","message":"invalid username: 'x'"}`, backend.KindInvalidRequest, false},
		{"no file", 404, asJSON, said(404, "path '/mnt/data/x' does not exist"), backend.KindNotFound, false},
		{"cube knows no way", 404, asJSON, `{"error":"not found"}`, backend.KindUnavailable, true},
		{"no method", 404, asText, "404 page not found\n", backend.KindUnsupported, false},
		{"a page", 404, asHTML, "<html>", backend.KindUnavailable, false},
		{"blocked route", 404, asJSON, `{"message":"not found","path":"/init","code":404}`, backend.KindUnavailable, false},
		{"cube says gone", 410, asJSON, `{"error":"gone"}`, backend.KindTerminal, false},
		{"a page says gone", 410, asHTML, "<html>", backend.KindUnavailable, false},
		{"too large", 413, asHTML, "<html>413</html>", backend.KindInvalidRequest, false},
		{"directory", 400, asJSON, said(400, "path '/x' is a directory"), backend.KindInvalidRequest, false},
		{"invalid host", 400, asText, "Invalid host", backend.KindInvalidRequest, false},
		{"range", 416, "", "", backend.KindInvalidRequest, false},
		{"head", 405, "", "", backend.KindUnsupported, false},
		{"slow", 408, "", "", backend.KindTimeout, false},
		{"too many", 429, asJSON, `{"message":"too many connections","connectionLimit":100}`, backend.KindCapacity, false},
		{"the daemon's own", 500, asJSON, said(500, "error opening file"), backend.KindInternal, false},
		{"a page of 500", 500, asHTML, "<html>", backend.KindUnavailable, false},
		{"a page of 502", 502, asHTML, "<html>", backend.KindUnavailable, false},
		{"a page of 504", 504, asHTML, "<html>", backend.KindUnavailable, false},
		{"pausing", 503, asJSON, `{"error":"service unavailable"}`, backend.KindUnavailable, false},
		{"disk full", 507, asJSON, said(507, "not enough disk space available"), backend.KindCapacity, false},
		{"a login page", 200, asHTML, "<html>log in</html>", backend.KindUnavailable, false},
		{"redirect", 302, "", "", backend.KindInternal, false},
	} {
		r := reply(row.status, row.kind, row.body)
		for _, subject := range []backend.Subject{"", backend.SubjectFile, backend.SubjectSandbox} {
			e := fault.Data("p", "Op", subject, r)
			if e.Kind != row.want || e.Plane != backend.PlaneData || e.Status != row.status {
				t.Errorf("%s: %q, plane %q, status %d, want %q", row.name, e.Kind, e.Plane, e.Status, row.want)
			}
			if backend.ProvesGone(e) {
				t.Errorf("%s proves that a sandbox is gone", row.name)
			}
		}
		if r.NotRouted() != row.notRouted {
			t.Errorf("%s: not routed: %v", row.name, r.NotRouted())
		}
	}
	for status, want := range map[int]bool{429: false, 507: true} {
		r := fault.Parse(status, http.Header{"Content-Type": {asJSON}}, []byte(`{"message":"no"}`))
		if e := fault.Data("p", "WriteFile", backend.SubjectFile, r); e.Kind != backend.KindCapacity || backend.Full(e) != want {
			t.Errorf("%d about a file: %+v", status, e)
		}
	}
	r := fault.Parse(503, http.Header{"Retry-After": {"2"}, "Content-Type": {asJSON}}, []byte(`{"error":"service unavailable"}`))
	if e := fault.Data("p", "Op", "", r); e.RetryAfter.Seconds() != 2 || !r.NotRouted() {
		t.Errorf("pausing, with a hint: %+v", e)
	}
}

// wire makes an error as it comes over the wire.
func wire(code connect.Code, message string) error {
	return connect.NewWireError(code, errors.New(message))
}

// TestRPC is the map of the protocol's codes.
func TestRPC(t *testing.T) {
	for _, row := range []struct {
		err  error
		want backend.Kind
	}{
		{wire(connect.CodeCanceled, "x"), backend.KindTimeout},
		{wire(connect.CodeDeadlineExceeded, "x"), backend.KindTimeout},
		{wire(connect.CodeUnavailable, "x"), backend.KindUnavailable},
		{wire(connect.CodeUnauthenticated, "x"), backend.KindAuthentication},
		{wire(connect.CodePermissionDenied, "x"), backend.KindAuthentication},
		{wire(connect.CodeUnauthenticated, "invalid username: 'x'"), backend.KindInvalidRequest},
		{wire(connect.CodeResourceExhausted, "x"), backend.KindCapacity},
		{connect.NewError(connect.CodeResourceExhausted, errors.New("message size 9 is larger than configured max 8")), backend.KindInternal},
		{wire(connect.CodeInvalidArgument, "x"), backend.KindInvalidRequest},
		{wire(connect.CodeOutOfRange, "x"), backend.KindInvalidRequest},
		{wire(connect.CodeNotFound, "process with pid 1 not found"), backend.KindNotFound},
		{wire(connect.CodeAlreadyExists, "x"), backend.KindConflict},
		{wire(connect.CodeAborted, "x"), backend.KindConflict},
		{wire(connect.CodeFailedPrecondition, "x"), backend.KindConflict},
		{wire(connect.CodeUnimplemented, "x"), backend.KindUnsupported},
		{wire(connect.CodeInternal, "x"), backend.KindInternal},
		{wire(connect.CodeDataLoss, "x"), backend.KindInternal},
		{wire(connect.CodeUnknown, "x"), backend.KindInternal},
		// The client's own words.
		{connect.NewError(connect.CodeInternal, errors.New("protocol error: unexpected EOF")), backend.KindUnavailable},
		{connect.NewError(connect.CodeUnavailable, errors.New("connection refused")), backend.KindUnavailable},
		// What the client would hide.
		{connect.NewError(connect.CodeUnavailable, reply(410, asJSON, `{"error":"gone"}`)), backend.KindTerminal},
		{connect.NewError(connect.CodeUnavailable, reply(409, asJSON, said(409, "transitioning"))), backend.KindConflict},
		{connect.NewError(connect.CodeUnavailable, reply(429, "", "")), backend.KindCapacity},
		{connect.NewError(connect.CodeUnavailable, reply(200, asHTML, "<html>")), backend.KindUnavailable},
	} {
		err := fault.RPC(t.Context(), "p", "Op", backend.SubjectSandbox, row.err)
		if got := backend.KindOf(err); got != row.want {
			t.Errorf("%v is %q, want %q", row.err, got, row.want)
		}
		if backend.ProvesGone(err) {
			t.Errorf("%v proves that a sandbox is gone", row.err)
		}
	}
}

// TestEchoedCommand: errors of a failed start hold the whole command line, which is
// nobody's to see.
func TestEchoedCommand(t *testing.T) {
	err := fault.RPC(t.Context(), "p", "Op", "", wire(connect.CodeInvalidArgument, "fork/exec /bin/sh: argument list too long: "+strings.Repeat("secret ", 30000)))
	if n := len(err.Error()); n > 700 {
		t.Errorf("the error has %d bytes", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "{}", `{"code":"x","message":1}`, "<html>", `{"code":404,"message":"path '/' does not exist"}`, "\xff\x00", `{"error_code":"a","detail":"b"}`, "null", "[]"} {
		f.Add(404, asJSON, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte) {
		r := fault.Parse(status, http.Header{"Content-Type": {kind}}, body)
		for _, class := range []fault.Class{fault.Create, fault.Sandbox, fault.Listing, fault.Template, fault.Snapshot} {
			e := fault.Control("p", "Op", class, r)
			if len(e.Message) > 1100 || strings.ContainsAny(e.Message, "\n\x00") {
				t.Errorf("message %q", e.Message)
			}
			if backend.ProvesGone(e) && (class != fault.Sandbox || status != 404 && status != 410 || r.Page) {
				t.Errorf("status %d, body %q proves that a sandbox is gone to class %d", status, body, class)
			}
		}
		if e := fault.Data("p", "Op", backend.SubjectSandbox, r); backend.ProvesGone(e) {
			t.Errorf("the data plane proves: %v", e)
		}
		_ = fmt.Sprint(r)
	})
}
