package exec

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/sdk/backend"
)

// place is one place of a request that names a session or a file.
type place struct {
	method, path string // of the route, as in routes
	about        string
	// build makes the request that names a session and a file there.
	build func(r *rig, session, file string) *http.Request
}

func (r *rig) asking(method, path string) *http.Request {
	return r.request(method, alice, path, nil)
}

func (r *rig) running(accept string, body obj) *http.Request {
	r.t.Helper()
	if body["lang"] == nil {
		body["lang"], body["code"] = "bash", "ls -A; echo done"
	}
	b, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	q := r.request("POST", alice, "/v1/exec", strings.NewReader(string(b)))
	if accept != "" {
		q.Header.Set("Accept", accept)
	}
	return q
}

func (r *rig) uploading(path string, parts ...field) *http.Request {
	r.t.Helper()
	body, contentType := form(r.t, parts...)
	q := r.request("POST", alice, path, body)
	q.Header.Set("Content-Type", contentType)
	return q
}

// places are all places there are. The routes that no test mentions fail it.
func places() []place {
	var all []place
	add := func(method, path, about string, build func(r *rig, session, file string) *http.Request) {
		all = append(all, place{method, path, about, build})
	}
	for _, query := range []string{"", "?kind=user&id=u", "?entity_id=e", "?detail=full", "?kind=skill&id=s&version=1"} {
		for _, route := range []struct{ method, path string }{
			{"GET", "/download/{sid}"},
			{"GET", "/download/{sid}/{fid...}"},
			{"HEAD", "/download/{sid}/{fid...}"},
			{"GET", "/files/{sid}"},
			{"DELETE", "/files/{sid}/{fid...}"},
			{"GET", "/sessions/{sid}/objects/{fid...}"},
			{"DELETE", "/sessions/{sid}/objects/{fid...}"},
		} {
			add(route.method, route.path, "query "+query, func(r *rig, session, file string) *http.Request {
				p := strings.ReplaceAll(strings.ReplaceAll(route.path, "{sid}", session), "{fid...}", file)
				return r.asking(route.method, "/v1"+p+query)
			})
		}
	}
	for _, header := range []struct{ name, value string }{
		{"Range", "bytes=0-3"},
		{"If-None-Match", "*"},
		{"If-Modified-Since", "Fri, 02 Jan 2099 03:04:05 GMT"},
		{"If-Match", "*"},
		{"User-Id", "mallory"},
		{"X-Org-Id", "evil"},
		{"X-IAM-Org-Id", "evil"},
		{"X-User-Id", "mallory"},
		{"X-CodeAPI-Expected-Profile", "stateful"},
	} {
		add("GET", "/download/{sid}/{fid...}", "header "+header.name, func(r *rig, session, file string) *http.Request {
			q := r.asking("GET", "/v1/download/"+session+"/"+file)
			q.Header.Set(header.name, header.value)
			return q
		})
		add("GET", "/files/{sid}", "header "+header.name, func(r *rig, session, _ string) *http.Request {
			q := r.asking("GET", "/v1/files/"+session)
			q.Header.Set(header.name, header.value)
			return q
		})
	}
	for _, accept := range []string{"", "text/event-stream"} {
		add("POST", "/exec", "session_id "+accept, func(r *rig, session, _ string) *http.Request {
			return r.running(accept, obj{"session_id": session, "user_id": "mallory", "entity_id": "evil"})
		})
		for _, spelling := range []string{"storage_session_id", "session_id"} {
			add("POST", "/exec", "files[]."+spelling+accept, func(r *rig, session, file string) *http.Request {
				return r.running(accept, obj{"files": []obj{{"id": file, "name": "in.txt", spelling: session}}})
			})
		}
		add("POST", "/exec", "files[] of the request's session"+accept, func(r *rig, session, file string) *http.Request {
			return r.running(accept, obj{"session_id": session, "files": []obj{{"id": file, "name": "in.txt"}}})
		})
		add("POST", "/exec", "files[].modified_from and the like"+accept, func(r *rig, session, file string) *http.Request {
			return r.running(accept, obj{"files": []obj{{
				"id": file, "name": "in.txt", "storage_session_id": session, "kind": "skill", "resource_id": "s", "version": 1, "inherited": true,
				"modified_from": obj{"id": file, "storage_session_id": session},
			}}})
		})
	}
	program := func(r *rig, body obj) *http.Request {
		body["lang"], body["code"], body["tools"] = "bash", "ls -A; echo done", []any{}
		q := r.running("", body)
		q.URL.Path = "/v1/exec/programmatic"
		return q
	}
	add("POST", "/exec/programmatic", "session_id", func(r *rig, session, _ string) *http.Request {
		return program(r, obj{"session_id": session})
	})
	add("POST", "/exec/programmatic", "files[]", func(r *rig, session, file string) *http.Request {
		return program(r, obj{"files": []obj{{"id": file, "name": "in.txt", "storage_session_id": session}}})
	})
	for _, path := range []string{"/upload", "/upload/batch"} {
		add("POST", path, "session_id", func(r *rig, session, _ string) *http.Request {
			return r.uploading("/v1"+path, field{"session_id", "", session}, csv("in.txt", "mine"))
		})
	}
	return all
}

// idless are routes that name no session.
var idless = []string{"GET /languages", "GET /health", "GET /openapi.json", "POST /exec/programmatic/cancel"}

// What another tenant has is answered as what nobody has: status, headers and body are
// the same, whatever names it, and nothing of it changes.
func TestForeignIsAbsent(t *testing.T) {
	r := newRig(t)
	theirs := into[CodeResult](t, r.post(mallory, "/v1/exec", obj{"lang": "bash", "code": "echo secret > in.txt"}), 200)
	uploaded := into[stored](t, r.send(mallory, "/v1/upload", field{"kind", "", "user"}, field{"id", "", "u"}, csv("in.txt", "secret")), 200)
	absent := func() string { // of the same shape, and nobody's
		id, err := r.keys.NewSession(identity.Route{})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	file := r.keys.FileID(absent(), "in.txt", "x")

	seen := make(map[string]bool)
	for _, p := range places() {
		seen[p.method+" "+p.path] = true
		t.Run(p.method+" "+p.path+" "+p.about, func(t *testing.T) {
			want := neutral(t, r.do(p.build(r, absent(), file)), nil)
			for what, x := range map[string]struct{ session, file string }{
				"a run's":          {theirs.SessionID, theirs.Files[0].ID},
				"a run's, by name": {theirs.SessionID, "in.txt"},
				"an upload's":      {uploaded.SessionID, uploaded.Files[0].FileID},
				"of nobody's":      {absent(), theirs.Files[0].ID},
			} {
				got := neutral(t, r.do(p.build(r, x.session, x.file)), []string{x.session, x.file})
				if got != want {
					t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
				}
			}
		})
	}
	for id, want := range map[string]string{theirs.SessionID: "secret\n", uploaded.SessionID: "secret"} {
		if got := r.content(id, "in.txt"); got != want {
			t.Errorf("their file is %q now", got)
		}
	}
	for _, sb := range r.shells.live() {
		if sb.Metadata.Tenant == "evil" && sb.Metadata.Session != theirs.SessionID && sb.Metadata.Session != uploaded.SessionID {
			t.Errorf("a sandbox of theirs more: %+v", sb)
		}
	}
	d := &door{Interpreter: r.Interpreter}
	for _, rt := range d.routes() {
		for method := range rt.methods {
			if route := method + " " + rt.path; !seen[route] && !slices.Contains(idless, route) {
				t.Errorf("no place of %s is tried", route)
			}
		}
	}
}

// neutral is an answer without what differs from one request to the next: new ids and
// times. An id of the request must not come back, whatever it names.
func neutral(t *testing.T, a answer, ids []string) string {
	t.Helper()
	body := string(a.body)
	for _, id := range ids {
		if len(id) == 21 && strings.Contains(body, id) {
			t.Errorf("%s comes back in %s", id, body)
		}
	}
	if a.header.Get("Content-Type") == "text/event-stream" {
		var out []string
		for line := range strings.Lines(body) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				line = "data: " + neutralJSON(t, []byte(data)) + "\n"
			}
			if !strings.HasPrefix(line, ":") {
				out = append(out, line)
			}
		}
		body = strings.Join(out, "")
	} else if a.header.Get("Content-Type") == "application/json" && len(a.body) > 0 {
		body = neutralJSON(t, a.body)
	}
	h := a.header.Clone()
	for _, k := range []string{"Date", "Content-Length", "X-Request-Id"} {
		h.Del(k)
	}
	return fmt.Sprintf("%d %v\n%s", a.status, h, body)
}

func neutralJSON(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %q", err, raw)
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case []any:
			for k := range v {
				v[k] = walk(v[k])
			}
		case map[string]any:
			for k := range v {
				switch k {
				case "session_id", "storage_session_id", "fileId", "id", "etag", "wall_time", "request_id":
					v[k] = "new"
				default:
					v[k] = walk(v[k])
				}
			}
		}
		return v
	}
	b, err := json.Marshal(walk(v))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A paused session of somebody else is as absent as any, although one's own says so.
func TestForeignPausedIsAbsent(t *testing.T) {
	r := newRig(t)
	theirs := r.exec(mallory, "echo s > f").SessionID
	r.pause(theirs)
	for _, path := range []string{"/files/", "/sessions/%s/objects/f", "/download/%s/f"} {
		path = strings.ReplaceAll(path, "%s", url.PathEscape(theirs))
		if strings.HasSuffix(path, "/") {
			path += theirs
		}
		a := r.get(alice, path)
		if a.status != 404 && strings.TrimSpace(string(a.body)) != "[]" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if r.shells.connects.Load() != 0 {
		t.Error("it was woken")
	}
	if sb, err := r.shells.Backend.Get(t.Context(), r.box(theirs)); err != nil || sb.State != backend.StatePaused {
		t.Errorf("%+v, %v", sb, err)
	}
}

// It takes as long, too, within a generous noise.
func TestForeignTakesAsLong(t *testing.T) {
	r := newRig(t)
	theirs := r.exec(mallory, "echo s > f")
	absent, err := r.keys.NewSession(identity.Route{})
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[string][]time.Duration)
	for range 200 {
		for _, id := range []string{theirs.SessionID, absent} { // in turns: whatever slows one slows both
			start := time.Now()
			if a := r.get(alice, "/v1/sessions/"+id+"/objects/"+theirs.Files[0].ID); a.status != 404 {
				t.Fatalf("%d %s", a.status, a.body)
			}
			times[id] = append(times[id], time.Since(start))
		}
	}
	median := func(id string) time.Duration {
		slices.Sort(times[id])
		return times[id][len(times[id])/2]
	}
	foreign, none := median(theirs.SessionID), median(absent)
	if ratio := float64(foreign) / float64(none); ratio > 3 || ratio < 1.0/3 {
		t.Errorf("%v for another tenant's, %v for nobody's", foreign, none)
	}
	t.Logf("%v for another tenant's, %v for nobody's", foreign, none)
}
