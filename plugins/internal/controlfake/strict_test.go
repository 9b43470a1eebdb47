package controlfake

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStrict: what no contract allows is refused as the provider does, and reported.
func TestStrict(t *testing.T) {
	for name, c := range map[string]struct {
		provider              Provider
		method, path, body    string
		header                map[string]string
		status                int
		violation             string // empty: none
		contentType, replyHas string
	}{
		"an unknown route":               {method: "GET", path: "/sandbox", status: 404, violation: "no route", replyHas: "no matching operation"},
		"an unknown route of the other":  {provider: Cube, method: "GET", path: "/sandbox", status: 404, violation: "no route"},
		"another method":                 {method: "PUT", path: "/sandboxes/i1", status: 404, violation: "no route"},
		"no key":                         {method: "GET", path: "/v2/sandboxes", header: map[string]string{"X-Api-Key": ""}, status: 401, violation: "without a key"},
		"a wrong key":                    {method: "GET", path: "/v2/sandboxes", header: map[string]string{"X-Api-Key": "x"}, status: 401},
		"a bearer at cube":               {provider: Cube, method: "GET", path: "/v2/sandboxes", header: map[string]string{"X-Api-Key": "", "Authorization": "Bearer key"}, status: 200},
		"another content type":           {method: "POST", path: "/sandboxes", body: "templateID=base", contentType: "application/x-www-form-urlencoded", status: 415, violation: "content type"},
		"an unknown member":              {method: "POST", path: "/sandboxes", body: `{"templateID":"base","secret":true}`, status: 400, violation: "unknown field", replyHas: "validation error"},
		"an unknown member at cube":      {provider: Cube, method: "POST", path: "/sandboxes", body: `{"templateID":"base","odd":true}`, status: 422, violation: "unknown field"},
		"no body":                        {method: "POST", path: "/sandboxes", status: 400, violation: "body"},
		"no template":                    {method: "POST", path: "/sandboxes", body: `{}`, status: 400, violation: "template"},
		"an absent template":             {method: "POST", path: "/sandboxes", body: `{"templateID":"absent"}`, status: 404},
		"public traffic without secure":  {method: "POST", path: "/sandboxes", body: `{"templateID":"base","network":{"allowPublicTraffic":false}}`, status: 400},
		"a timeout of zero":              {method: "POST", path: "/sandboxes", body: `{"templateID":"base","timeout":0}`, status: 400},
		"a host without deny all":        {method: "POST", path: "/sandboxes", body: `{"templateID":"base","network":{"allowOut":["x.example"]}}`, status: 400},
		"no body when connecting":        {method: "POST", path: "/sandboxes/iaaa/connect", status: 400, violation: "body"},
		"two dashes in an id":            {method: "GET", path: "/sandboxes/a-b-c", status: 400},
		"an absent sandbox":              {method: "GET", path: "/sandboxes/iaaa", status: 404, replyHas: `"code":404`},
		"a limit beyond 100":             {method: "GET", path: "/v2/sandboxes?limit=101", status: 400, violation: "limit"},
		"an unknown parameter":           {method: "GET", path: "/v2/sandboxes?tenant=x", status: 200, violation: "parameter"},
		"a metadata filter decoded once": {method: "GET", path: "/v2/sandboxes?metadata=%25zz", status: 400, violation: "metadata"},
		"a token of the data plane":      {method: "GET", path: "/v2/sandboxes", header: map[string]string{"X-Access-Token": "t"}, status: 200, violation: "data plane"},
		"an alias as an id":              {method: "GET", path: "/templates/base", status: 404},
		"an alias":                       {method: "GET", path: "/templates/aliases/base", status: 200},
		"an unknown build":               {method: "GET", path: "/templates/x/builds/y/status", status: 400, replyHas: "Build 'y' not found"},
		"health":                         {method: "GET", path: "/health", header: map[string]string{"X-Api-Key": ""}, status: 204},
		"health of cube":                 {provider: Cube, method: "GET", path: "/health", header: map[string]string{"X-Api-Key": ""}, status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			var seen []string
			s := New(Options{
				Provider: c.provider, Dir: t.TempDir(), APIKey: "key", Domain: "sandbox.test", Templates: []string{"base"},
				Violation: func(text string) { seen = append(seen, text) },
			})
			defer s.Close()
			r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
			r.Header.Set("X-Api-Key", "key")
			if c.body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			if c.contentType != "" {
				r.Header.Set("Content-Type", c.contentType)
			}
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.replyHas) {
				t.Errorf("answered %d %s, want %d %q", w.Code, w.Body, c.status, c.replyHas)
			}
			reported := slices.ContainsFunc(seen, func(v string) bool { return strings.Contains(v, c.violation) })
			if c.violation == "" && len(seen) > 0 || c.violation != "" && !reported {
				t.Errorf("reported %q, want %q", seen, c.violation)
			}
		})
	}
}

// TestFilterDecoding: filters arrive encoded as often as the provider decodes them.
func TestFilterDecoding(t *testing.T) {
	s := New(Options{Dir: t.TempDir(), Domain: "x", Violation: func(v string) { t.Error(v) }})
	defer s.Close()
	r := httptest.NewRequest(http.MethodGet, "/v2/sandboxes?metadata=k%2525201%3Dv%252526%25253D2", nil)
	got, ok := s.parseFilter(r.URL.Query().Get("metadata"))
	if !ok || len(got) != 1 || got["k 1"] != "v&=2" {
		t.Errorf("the filter is %q, %v", got, ok)
	}
}

// TestBuilds: a build takes its time, and fails for a reason.
func TestBuilds(t *testing.T) {
	s := New(Options{Dir: t.TempDir(), Domain: "x", Violation: func(v string) { t.Error(v) }})
	defer s.Close()
	call := func(method, path, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	if code, _ := call("POST", "/v3/templates", `{"name":"n:default"}`); code != http.StatusAccepted {
		t.Fatal(code)
	}
	made := s.template("n")
	path := "/v2/templates/" + made.id + "/builds/" + made.build
	if code, _ := call("POST", path, `{"fromImage":"broken:1"}`); code != http.StatusAccepted {
		t.Fatal(code)
	}
	if code, _ := call("POST", path, `{"fromImage":"broken:1"}`); code != http.StatusBadRequest {
		t.Errorf("started twice: %d", code)
	}
	status := "/templates/" + made.id + "/builds/" + made.build + "/status"
	for _, want := range []string{`"building"`, `"error"`} {
		if _, body := call("GET", status, ""); !strings.Contains(body, want) {
			t.Errorf("the status is %s, want %s", body, want)
		}
		s.Advance(2 * time.Minute)
	}
}
