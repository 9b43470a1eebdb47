package envd_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
)

var styles = map[string]envdfake.Style{"e2b": envdfake.E2B, "cube": envdfake.Cube}

// wantKind checks an error's kind and that it proves nothing.
func wantKind(t *testing.T, what string, err error, kind backend.Kind) {
	t.Helper()
	if err == nil || backend.KindOf(err) != kind {
		t.Errorf("%s: %v, want kind %q", what, err, kind)
	}
	if backend.ProvesGone(err) {
		t.Errorf("%s proves that the sandbox is gone: %v", what, err)
	}
}

// TestPausedOrGone: the gateway says the same of both, and the control plane decides.
// Nothing is woken.
func TestPausedOrGone(t *testing.T) {
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, options{style: style})
			ref := s.sandbox()
			if err := s.Pause(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
			_, err := s.Stat(t.Context(), ref, backend.DataDir)
			wantKind(t, "a paused sandbox", err, backend.KindConflict)
			_, err = s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}})
			wantKind(t, "a command in it", err, backend.KindConflict)
			if sb, err := s.Get(t.Context(), ref); err != nil || sb.State != backend.StatePaused {
				t.Errorf("it is %q, %v", sb.State, err)
			}
			if _, err := s.Connect(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Stat(t.Context(), ref, backend.DataDir); err != nil {
				t.Errorf("after waking: %v", err)
			}
			// Gone behind our back.
			s.mu.Lock()
			b := s.boxes[ref.ID]
			delete(s.boxes, ref.ID)
			s.gateway.Remove(ref.ID)
			s.mu.Unlock()
			t.Cleanup(func() { s.end(b) })
			if _, err := s.Stat(t.Context(), ref, backend.DataDir); !backend.ProvesGone(err) {
				t.Errorf("a sandbox that is gone: %v", err)
			}
		})
	}
}

// TestKilled: a gateway that says gone is not believed while the control plane says
// running.
func TestKilled(t *testing.T) {
	s := newStand(t, options{style: envdfake.Cube})
	ref := s.sandbox()
	s.gateway.Set(ref.ID, envdfake.Killed)
	_, err := s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}})
	wantKind(t, "410 of a sandbox that runs", err, backend.KindUnavailable)
	s.box(ref).about.State = backend.StateTerminated
	if _, err := s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}}); !backend.ProvesGone(err) {
		t.Errorf("410 of one that has ended: %v", err)
	}
}

// TestControlPlaneDown: when nobody can tell, nothing is proved.
func TestControlPlaneDown(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	s.gateway.Set(ref.ID, envdfake.Paused)
	for _, err := range []error{
		backend.Errorf(backend.KindUnavailable, "Get", "refused"), backend.Errorf(backend.KindAuthentication, "Get", "bad key"),
		backend.Errorf(backend.KindNotFound, "Get", "without a subject"),
	} {
		s.fault = err
		_, got := s.Stat(t.Context(), ref, backend.DataDir)
		wantKind(t, "502 while the control plane says "+err.Error(), got, backend.KindUnavailable)
	}
}

// TestRetries: what never reached the sandbox is sent again, and what can be done twice
// is too; a command that may have run is not.
func TestRetries(t *testing.T) {
	notOpen := envdfake.Fault{Status: 502, Body: `{"message":"The sandbox is running but port is not open","code":502}`, Times: 2}
	for _, row := range []struct {
		name       string
		fault      envdfake.Fault
		stat, exec bool // whether they succeed
	}{
		{"port not open yet", notOpen, true, true},
		{"in transition", envdfake.Fault{Status: 409, Body: `{"message":"still transitioning","code":409}`}, true, true},
		{"try again in a second", envdfake.Fault{Status: 503, Body: `{"error":"service unavailable"}`, Header: map[string]string{"Retry-After": "1"}}, true, true},
		{"no way yet", envdfake.Fault{Status: 404, Body: `{"error":"not found"}`}, true, true},
		{"stale route", envdfake.Fault{Status: 504, Body: "<html>504</html>"}, true, false},
		{"bad gateway", envdfake.Fault{Status: 502, Body: "<html>502</html>"}, true, false},
		{"a login page", envdfake.Fault{Status: 200, Body: "<html>log in</html>"}, true, false},
		{"hung up", envdfake.Fault{Reset: true, Times: 3}, true, false}, // the transport tries again by itself, on a fresh connection
		{"for ever", envdfake.Fault{Status: 502, Body: "<html>502</html>", Times: -1}, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStand(t, options{})
			ref := s.sandbox()
			if err := s.MakeDir(t.Context(), ref, backend.DataDir); err != nil {
				t.Fatal(err)
			}
			row.fault.Path = "/filesystem.Filesystem/Stat"
			s.gateway.Script.Add(row.fault)
			if _, err := s.Stat(t.Context(), ref, backend.DataDir); (err == nil) != row.stat {
				t.Errorf("Stat: %v", err)
			} else if err != nil {
				wantKind(t, "Stat", err, backend.KindUnavailable)
			}
			row.fault.Path = "/process.Process/Start"
			s.gateway.Script.Clear()
			s.gateway.Script.Add(row.fault)
			s.forgetRequests()
			if _, err := s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}}); (err == nil) != row.exec {
				t.Errorf("Exec: %v", err)
			} else if err != nil {
				wantKind(t, "Exec", err, backend.KindUnavailable)
				if n := len(s.requests("/Start")); n > 1 && !row.fault.Reset {
					t.Errorf("a command that may have run was sent %d times", n)
				}
			}
		})
	}
}

// TestErrorsUnderTheProtocol: what gateways say survives the protocol's client, in
// unary calls and in streams.
func TestErrorsUnderTheProtocol(t *testing.T) {
	for _, row := range []struct {
		status int
		body   string
		want   backend.Kind
	}{
		{400, "Invalid host", backend.KindInvalidRequest},
		{403, `{"message":"Missing or invalid traffic access token","code":403}`, backend.KindAuthentication},
		{404, "404 page not found", backend.KindUnsupported},
		{408, "", backend.KindTimeout},
		{409, `{"message":"busy","code":409}`, backend.KindConflict},
		{413, "<html>413</html>", backend.KindInvalidRequest},
		{429, `{"message":"too many"}`, backend.KindCapacity},
		{500, "<html>500</html>", backend.KindUnavailable},
		{500, `{"code":500,"message":"own"}`, backend.KindInternal},
		{502, "<html>502</html>", backend.KindUnavailable},
		{507, `{"code":507,"message":"full"}`, backend.KindCapacity},
		{200, "<html>log in</html>", backend.KindUnavailable},
		{200, "", backend.KindUnavailable},
		{302, "", backend.KindInternal},
		{307, "", backend.KindInternal},
	} {
		s := newStand(t, options{})
		ref := s.sandbox()
		s.gateway.Script.Add(envdfake.Fault{Path: "/process.*", Status: row.status, Body: row.body, Header: map[string]string{"Location": "/elsewhere"}, Times: -1})
		s.gateway.Script.Add(envdfake.Fault{Path: "/filesystem.*", Status: row.status, Body: row.body, Header: map[string]string{"Location": "/elsewhere"}, Times: -1})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := s.Exec(ctx, backend.ExecRequest{Ref: ref, Argv: []string{"true"}})
		wantKind(t, "a stream, "+http.StatusText(row.status)+" "+row.body, err, row.want)
		if e := (*backend.Error)(nil); errors.As(err, &e) && (e.Status != row.status || e.Plane != backend.PlaneData) {
			t.Errorf("status %d, plane %q, want %d of the data plane", e.Status, e.Plane, row.status)
		}
		if row.status != 500 && row.status != 502 && row.status != 200 { // those are tried again for seconds
			_, err = s.ListDir(ctx, ref, backend.DataDir)
			wantKind(t, "a call, "+http.StatusText(row.status)+" "+row.body, err, row.want)
		}
		cancel()
		if len(s.requests("/elsewhere")) > 0 {
			t.Errorf("a redirect was followed")
		}
	}
}

// TestFilesOverHTTP: pages and redirects are no content.
func TestFilesOverHTTP(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	if _, err := s.WriteFile(t.Context(), ref, backend.DataDir+"/f", backend.WriteOptions{}, strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		fault envdfake.Fault
		want  backend.Kind
	}{
		{envdfake.Fault{Status: 200, Body: "<html>log in</html>", Times: -1}, backend.KindUnavailable},
		{envdfake.Fault{Status: 302, Header: map[string]string{"Location": "/elsewhere"}, Times: -1}, backend.KindInternal},
		{envdfake.Fault{Status: 404, Body: `{"code":404,"message":"path '/mnt/data/f' does not exist"}`, Times: -1}, backend.KindNotFound},
		{envdfake.Fault{Status: 413, Body: "<html>413</html>", Times: -1}, backend.KindInvalidRequest},
		{envdfake.Fault{Status: 507, Body: `{"code":507,"message":"not enough disk space available"}`, Times: -1}, backend.KindCapacity},
	} {
		s.gateway.Script.Clear()
		row.fault.Path = "/files"
		s.gateway.Script.Add(row.fault)
		_, _, err := s.ReadFile(t.Context(), ref, backend.DataDir+"/f")
		wantKind(t, "ReadFile", err, row.want)
		if row.want != backend.KindNotFound {
			_, err = s.WriteFile(t.Context(), ref, backend.DataDir+"/g", backend.WriteOptions{}, strings.NewReader("x"))
			wantKind(t, "WriteFile", err, row.want)
		}
	}
	if len(s.requests("/elsewhere")) > 0 {
		t.Error("a redirect was followed")
	}
	// Content that is cut is not taken for the whole.
	s.gateway.Script.Clear()
	s.gateway.Script.Add(envdfake.Fault{Method: "GET", Path: "/files", Cut: 3})
	r, _, err := s.ReadFile(t.Context(), ref, backend.DataDir+"/f")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	_ = r.Close()
	wantKind(t, "a cut file of which "+string(got)+" came", err, backend.KindUnavailable)
}

// TestTokens: a client that lost everything learns tokens from the control plane, one
// whose tokens are old asks once, and one that gets none says so.
func TestTokens(t *testing.T) {
	s := newStand(t, options{style: envdfake.Cube})
	ref := s.sandbox()
	s.Forget(ref.ID) // as after a restart
	if _, err := s.ListDir(t.Context(), ref, backend.DataDir); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	if e, ok := s.Endpoint(ref.ID); !ok || e.TrafficToken == "" {
		t.Error("the token was not kept")
	}
	if err := s.Bind(ref.ID, envd.Endpoint{}); err != nil {
		t.Error(err)
	}
	if e, _ := s.Endpoint(ref.ID); e.TrafficToken == "" {
		t.Error("an empty token replaced one")
	}
	old := s.box(ref).where.TrafficToken
	if err := s.Bind(ref.ID, envd.Endpoint{TrafficToken: "old"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ListDir(t.Context(), ref, backend.DataDir); err != nil {
		t.Errorf("with an old token: %v", err)
	}
	if e, _ := s.Endpoint(ref.ID); e.TrafficToken != old {
		t.Error("the token was not refreshed")
	}
	s.box(ref).where.TrafficToken = "lost"
	_ = s.Bind(ref.ID, envd.Endpoint{TrafficToken: "lost"})
	before := s.located
	_, err := s.ListDir(t.Context(), ref, backend.DataDir)
	wantKind(t, "with a token that is lost for good", err, backend.KindAuthentication)
	if n := s.located - before; n > 2 {
		t.Errorf("the control plane was asked %d times", n)
	}
	s.Forget(ref.ID)
	if _, ok := s.Endpoint(ref.ID); ok {
		t.Error("a forgotten sandbox is known")
	}
}

// TestOpenSandbox: a daemon without a token would be open to everybody.
func TestOpenSandbox(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	s.Forget(ref.ID)
	s.box(ref).where.AccessToken = ""
	s.forgetRequests()
	_, err := s.ListDir(t.Context(), ref, backend.DataDir)
	wantKind(t, "a sandbox without a token", err, backend.KindAuthentication)
	if n := len(s.requests("")); n > 0 {
		t.Errorf("%d requests were sent to it", n)
	}
}

// TestHeaders: what each request carries, and what none does.
func TestHeaders(t *testing.T) {
	for name, style := range styles {
		s := newStand(t, options{style: style})
		ref := s.sandbox()
		b := s.box(ref)
		if _, err := s.WriteFile(t.Context(), ref, backend.DataDir+"/f", backend.WriteOptions{}, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		for _, r := range s.requests("") {
			user, password, ok := r.BasicAuth()
			if !ok || user != "root" || password != "" || r.Header.Get("X-Access-Token") != b.where.AccessToken {
				t.Errorf("%s: %s lacks its credentials", name, r.URL.Path)
			}
			if got := r.Header.Get("E2b-Traffic-Access-Token"); (got != "") != (style == envdfake.Cube) {
				t.Errorf("%s: %s has the traffic token %q", name, r.URL.Path, got)
			}
			if r.ProtoMajor != 1 || r.Host != "49983-"+ref.ID+".sandbox.test" {
				t.Errorf("%s: %s over %s to %s", name, r.URL.Path, r.Proto, r.Host)
			}
			if ua := r.UserAgent(); r.URL.Path == "/files" && ua != "caisson" {
				t.Errorf("%s: user agent %q", name, ua)
			}
		}
		for _, r := range s.requests("/Start") {
			if r.Header.Get("Keepalive-Ping-Interval") != "50" || r.Header.Get("Connect-Timeout-Ms") != "" {
				t.Errorf("%s: a program was started with %v", name, r.Header)
			}
		}
	}
}

// TestNoProxy: the environment's proxy is never used.
func TestNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	t.Setenv("http_proxy", "http://127.0.0.1:9")
	var dialled atomic.Value
	s := newStand(t, options{change: func(o *envd.Options) {
		dial := o.Dial
		o.Gateway = strings.Replace(o.Gateway, "127.0.0.1", "gateway.test", 1)
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled.Store(address)
			return dial(ctx, network, strings.Replace(address, "gateway.test", "127.0.0.1", 1))
		}
	}})
	ref := s.sandbox()
	if _, err := s.ListDir(t.Context(), ref, backend.DataDir); err != nil {
		t.Error(err)
	}
	if got, _ := dialled.Load().(string); !strings.HasPrefix(got, "gateway.test:") {
		t.Errorf("dialled %q", got)
	}
}

// TestRefusedDial: what the guard refuses is unavailable, and says nothing of where.
func TestRefusedDial(t *testing.T) {
	s := newStand(t, options{change: func(o *envd.Options) {
		o.Dial = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(169, 254, 169, 254), Port: 80}, Err: errors.New("refused by the guard")}
		}
	}})
	ref := s.sandbox()
	_, err := s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"true"}})
	wantKind(t, "a refused address", err, backend.KindUnavailable)
	if strings.Contains(err.Error(), "169.254") || strings.Contains(err.Error(), ref.ID) {
		t.Errorf("the error tells where: %v", err)
	}
}

// TestOptions: bad ones are refused before anything is dialled.
func TestOptions(t *testing.T) {
	good := envd.Options{Provider: "p", Domain: "x.test", Dial: (&net.Dialer{}).DialContext, Control: &stand{}}
	if _, err := envd.New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*envd.Options){
		"no provider":     func(o *envd.Options) { o.Provider = "" },
		"no dial":         func(o *envd.Options) { o.Dial = nil },
		"no control":      func(o *envd.Options) { o.Control = nil },
		"no domain":       func(o *envd.Options) { o.Domain = "" },
		"domain, slash":   func(o *envd.Options) { o.Domain = "x.test/y" },
		"domain, at":      func(o *envd.Options) { o.Domain = "x@y" },
		"user, colon":     func(o *envd.Options) { o.User = "a:b" },
		"gateway, scheme": func(o *envd.Options) { o.Gateway = "ftp://x" },
		"gateway, none":   func(o *envd.Options) { o.Gateway = "x.test:80" },
		"gateway, path":   func(o *envd.Options) { o.Gateway = "http://x/y" },
		"gateway, secret": func(o *envd.Options) { o.Gateway = "http://user:canary@x" },
		"gateway, query":  func(o *envd.Options) { o.Gateway = "http://x?y=canary" },
	} {
		o := good
		change(&o)
		if _, err := envd.New(o); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, _ := envd.New(good)
	for _, id := range []string{"", "a.b", "a@b", "a/b", "a:1", "a b", strings.Repeat("x", 200)} {
		if err := c.Bind(id, envd.Endpoint{}); err == nil {
			t.Errorf("the id %q could become a host name", id)
		}
	}
	if err := c.Bind("x", envd.Endpoint{Domain: "evil.test/"}); err == nil {
		t.Error("a domain that is none was bound")
	}
}

// TestReady waits for a daemon whose port opens late, and says what is wrong with one
// that never does.
func TestReady(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	s.gateway.Script.Add(envdfake.Fault{Path: "/health", Status: 502, Body: `{"message":"The sandbox is running but port is not open","code":502}`, Times: 3})
	if err := s.Ready(t.Context(), ref.ID); err != nil {
		t.Error(err)
	}
	s.gateway.Script.Clear()
	s.gateway.Script.Add(envdfake.Fault{Path: "/health", Status: 502, Body: "<html>", Times: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := s.Ready(ctx, ref.ID)
	wantKind(t, "a daemon that never answers", err, backend.KindUnavailable)
	if err != nil && !strings.Contains(err.Error(), "template") {
		t.Errorf("no hint: %v", err)
	}
}
