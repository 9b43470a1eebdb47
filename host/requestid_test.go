package host

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// naming admits everybody and has an id for each request.
type naming struct{ id string }

func (n naming) Admit(*http.Request) (Principal, error) {
	return Principal{Org: "acme", RequestID: n.id}, nil
}
func (naming) Standing(context.Context, Principal, Act) error { return nil }

func TestRequestIDs(t *testing.T) {
	long := strings.Repeat("x", 65)
	for name, c := range map[string]struct {
		brought  []string
		platform string // in the context
		admitted string // by Admission
		want     string // empty for a new one
	}{
		"none":                     {},
		"brought":                  {brought: []string{"req-0123.A_z"}, want: "req-0123.A_z"},
		"too short":                {brought: []string{"abc"}},
		"too long":                 {brought: []string{long}},
		"a line break":             {brought: []string{"abcdefgh\nlevel=error"}},
		"a quote":                  {brought: []string{`abcdefgh"`}},
		"a blank":                  {brought: []string{"abcdefgh ijk"}},
		"no ASCII":                 {brought: []string{"abcdefghé"}},
		"two":                      {brought: []string{"abcdefgh1", "abcdefgh2"}},
		"the platform's":           {brought: []string{"abcdefgh1"}, platform: "p", want: "p"},
		"the admission's":          {brought: []string{"abcdefgh1"}, admitted: "a-1", want: "a-1"},
		"the same from admission":  {brought: []string{"abcdefgh1"}, admitted: "abcdefgh1", want: "abcdefgh1"},
		"admission before context": {platform: "p", admitted: "a", want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			router := &foldingRouter{}
			h := bare(Platform{Router: router, Admission: naming{c.admitted}, Billing: Free})
			var inside, principal string
			err := h.Mount(t.Context(), Entry{Name: "e", Price: NoCharge, Mount: func(_ context.Context, m *Mounting) error {
				m.Prefixes("/x")
				m.Handle("GET /x", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					p, _ := PrincipalFrom(r.Context())
					inside, principal = RequestID(r.Context()), p.RequestID
				}), nil)
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodGet, "/x", nil)
			for _, id := range c.brought {
				r.Header.Add(RequestIDHeader, id)
			}
			if c.platform != "" {
				r = r.WithContext(backend.WithRequestID(r.Context(), c.platform))
			}
			w := httptest.NewRecorder()
			router.h.ServeHTTP(w, r)
			answered := w.Header().Values(RequestIDHeader)
			if len(answered) != 1 || answered[0] != inside || inside != principal {
				t.Errorf("answered %q, in the context %q, of the principal %q", answered, inside, principal)
			}
			switch {
			case c.want != "" && inside != c.want:
				t.Errorf("the id is %q, want %q", inside, c.want)
			case c.want == "" && (len(inside) < minRequestID || len(c.brought) > 0 && strings.Contains(inside, c.brought[0])):
				t.Errorf("the id is %q, want a new one", inside)
			}
		})
	}
}

// What is turned away has an id too, and so has what needs no credential.
func TestEveryAnswerHasAnID(t *testing.T) {
	mux := http.NewServeMux()
	h := bare(Platform{Router: mux, Admission: door{}, Billing: Free})
	refused := ""
	err := h.Mount(t.Context(), Entry{Name: "e", Price: NoCharge, Mount: func(_ context.Context, m *Mounting) error {
		m.Prefixes("/x")
		m.Handle("GET /x", http.NotFoundHandler(), func(w http.ResponseWriter, r *http.Request, e *HTTPError) {
			refused = RequestID(r.Context())
			w.WriteHeader(e.Status)
		})
		m.HandlePublic("GET /open", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/x", "/open"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if id := w.Header().Get(RequestIDHeader); id == "" || path == "/x" && id != refused {
			t.Errorf("%s: id %q, refused as %q", path, id, refused)
		}
	}
}
