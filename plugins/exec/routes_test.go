package exec

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Every spelling of the route reaches the same handler.
func TestAliases(t *testing.T) {
	r := newRig(t)
	for _, p := range []string{"/exec", "/exec/", "/v1/exec", "/v1/exec/", "/v1/exec/exec", "/v1/exec/exec/"} {
		res := into[CodeResult](t, r.post(alice, p, obj{"lang": "bash", "code": "echo $1", "args": []string{p}}), 200)
		if res.Stdout != p+"\n" {
			t.Errorf("%s: %+v", p, res)
		}
	}
	for _, p := range []string{"/exec/programmatic", "/v1/exec/programmatic", "/v1/exec/exec/programmatic"} {
		for _, p := range []string{p, p + "/"} {
			reply := into[obj](t, r.post(alice, p, obj{"lang": "bash", "code": "echo x", "tools": []any{}}), 200)
			if reply["status"] != "completed" || reply["stdout"] != "x\n" {
				t.Errorf("%s: %v", p, reply)
			}
			into[obj](t, r.post("", p, obj{}), 401)
		}
		for _, p := range []string{p + "/cancel", p + "/cancel/"} {
			into[obj](t, r.post(alice, p, obj{"request_id": "one"}), 202)
			into[obj](t, r.post("", p, obj{}), 401)
		}
	}
	for _, base := range []string{"", "/v1", "/v1/exec"} {
		s := into[stored](t, r.send(alice, base+"/upload", csv("a.csv", "1")), 200)
		into[stored](t, r.send(alice, base+"/upload/", csv("a.csv", "1")), 200)
		into[stored](t, r.send(alice, base+"/upload/batch", csv("a.csv", "1")), 200)
		into[stored](t, r.send(alice, base+"/upload/batch/", csv("a.csv", "1")), 200)
		id := s.SessionID + "/" + s.Files[0].FileID
		for _, p := range []string{"/download/" + id, "/files/" + s.SessionID, "/files/" + s.SessionID + "/", "/sessions/" + s.SessionID + "/objects/" + s.Files[0].FileID, "/languages", "/languages/", "/openapi.json", "/health", "/health/"} {
			if a := r.get(alice, base+p); a.status != 200 {
				t.Errorf("%s: %d %s", base+p, a.status, a.body)
			}
		}
		if a := r.do(r.request("DELETE", alice, base+"/files/"+id, nil)); a.status != 204 {
			t.Errorf("DELETE %s/files: %d %s", base, a.status, a.body)
		}
	}
}

func TestNotLetIn(t *testing.T) {
	r := newRig(t)
	for _, q := range []struct{ method, path string }{
		{"POST", "/v1/exec"},
		{"POST", "/exec/"},
		{"POST", "/v1/exec/exec"},
		{"POST", "/v1/upload"},
		{"POST", "/upload/batch"},
		{"GET", "/v1/download/a/b"},
		{"GET", "/files/a"},
		{"GET", "/v1/exec/sessions/a/objects/b"},
		{"DELETE", "/files/a/b"},
		{"GET", "/languages"},
		{"PUT", "/v1/exec"},
		{"DELETE", "/v1/exec/sessions/a/objects/b"},
	} {
		e := into[obj](t, r.do(r.request(q.method, "", q.path, strings.NewReader("{}"))), 401)
		if e["error"] != "no valid credential" || e["status"] != 401.0 || e["code"] != "unauthorized" {
			t.Errorf("%s %s: %v", q.method, q.path, e)
		}
	}
	if r.shells.created.Load() != 0 {
		t.Error("something was leased")
	}
}

func TestOtherMethods(t *testing.T) {
	r := newRig(t)
	for _, q := range []struct{ method, path, allow string }{
		{"GET", "/v1/exec", "POST"},
		{"PUT", "/upload", "POST"},
		{"HEAD", "/upload/batch", "POST"},
		{"POST", "/v1/files/a", "GET, HEAD"},
		{"DELETE", "/files/a/", "GET, HEAD"},
		{"POST", "/files/a/b", "DELETE"},
		{"GET", "/files/a/b", "DELETE"},
		{"DELETE", "/download/a", "GET, HEAD"},
		{"DELETE", "/download/a/b", "GET, HEAD"},
		{"PATCH", "/sessions/a/objects/b", "GET, HEAD, DELETE"},
		{"POST", "/health", "GET, HEAD"},
	} {
		a := r.do(r.request(q.method, alice, q.path, nil))
		e := obj{"code": "method_not_allowed"}
		if q.method != "HEAD" {
			e = into[obj](t, a, 405)
		}
		if a.status != 405 || a.header.Get("Allow") != q.allow || e["code"] != "method_not_allowed" {
			t.Errorf("%s %s: Allow %q, %v", q.method, q.path, a.header.Get("Allow"), e)
		}
	}
}

// The entry registers with a router that has handlers of the platform's own.
func TestRoutesBesideThePlatforms(t *testing.T) {
	r := newRig(t)
	for _, p := range []string{"GET /", "/", "GET /{anything...}", "POST /v1/other", "OPTIONS /"} {
		if p != "GET /{anything...}" { // the same set as "GET /"
			r.mux.HandleFunc(p, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		}
	}
	if a := r.get(alice, "/index.html"); a.status != http.StatusTeapot {
		t.Errorf("the platform's own route answers %d", a.status)
	}
	if a := r.get(alice, "/v1/health"); a.status != 200 {
		t.Errorf("health answers %d", a.status)
	}
}

func TestBases(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Bases = []string{Path, Path + "/"} })
	if a := r.get(alice, "/v1/exec/health"); a.status != 200 {
		t.Errorf("health = %d", a.status)
	}
	for _, p := range []string{"/health", "/v1/health", "/files/x"} {
		if a := r.get(alice, p); a.status != 404 {
			t.Errorf("%s = %d, want not ours", p, a.status)
		}
	}
	if !slices.Contains(r.prefixes, "/v1/exec/upload") || slices.Contains(r.prefixes, "/upload") {
		t.Errorf("prefixes = %v", r.prefixes)
	}
}

// A route that a platform rewrote to a path which was not declared stays shut,
// and one that folds case is admitted like any other.
func TestDriftAndCase(t *testing.T) {
	r := newRig(t)
	rewritten := http.NewServeMux()
	rewritten.HandleFunc("/inner/", func(w http.ResponseWriter, q *http.Request) {
		h, _ := r.mux.Handler(r.request("POST", "", "/v1/exec", nil))
		h.ServeHTTP(w, q)
	})
	r.server.Config.Handler = rewritten
	if a := r.post(alice, "/inner/exec", obj{"lang": "bash", "code": "true"}); a.status != 403 {
		t.Errorf("an undeclared path answers %d", a.status)
	}
	r.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h, _ := r.mux.Handler(r.request("POST", "", strings.ToLower(q.URL.Path), nil))
		h.ServeHTTP(w, q) // the path itself keeps its case
	})
	if a := r.post("", "/V1/EXEC", obj{"lang": "bash", "code": "true"}); a.status != 401 {
		t.Errorf("/V1/EXEC without a credential answers %d", a.status)
	}
	if a := r.post(alice, "/V1/EXEC", obj{"lang": "bash", "code": "true"}); a.status != 200 {
		t.Errorf("/V1/EXEC with one answers %d", a.status)
	}
}

func TestProfilesAndWorkspaces(t *testing.T) {
	r := newRig(t)
	for header, want := range map[string]struct {
		value string
		code  string
	}{
		"X-CodeAPI-Expected-Profile":    {"stateful", "execution_profile_mismatch"},
		"X-LibreChat-Code-Worker-ID":    {"w", "stateful_workspace_unsupported"},
		"X-LibreChat-Code-Workspace-ID": {"w", "stateful_workspace_unsupported"},
		"x-codeapi-expected-profile":    {"Default", ""},
		"X-LibreChat-Code-Request-ID":   {"00000000-0000-0000-0000-000000000000", ""},
	} {
		q := r.request("POST", alice, "/exec", strings.NewReader(`{"lang":"bash","code":"true"}`))
		q.Header.Set(header, want.value)
		a := r.do(q)
		if want.code == "" {
			into[CodeResult](t, a, 200)
		} else if e := into[obj](t, a, 409); e["error"] != want.code {
			t.Errorf("%s: %s: %v", header, want.value, e)
		}
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	r := newRig(t)
	r.shells.onCreate = func() error { panic("with a /secret/path") }
	a := r.post(alice, "/exec", obj{"lang": "bash", "code": "true"})
	e := into[obj](t, a, 500)
	if e["error"] != "internal error" || strings.Contains(string(a.body), "secret") || !strings.Contains(r.log.String(), "/secret/path") {
		t.Errorf("%s\n%s", a.body, r.log)
	}
	r.shells.onCreate = nil
	r.exec(alice, "true") // the place in the queue was given back
}
