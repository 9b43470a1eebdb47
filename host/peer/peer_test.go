package peer

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keys(t *testing.T, secret string) *identity.Keys {
	t.Helper()
	k, err := identity.NewKeys([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const secret = "a deployment secret of the tests"

func open(t *testing.T, node string, peers map[string]string) *Peers {
	t.Helper()
	p, err := New(Options{Node: node, Peers: peers, Keys: keys(t, secret)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func id(t *testing.T, node string) string {
	t.Helper()
	k := keys(t, secret)
	s, err := k.NewSession(k.Route("main", node))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAway(t *testing.T) {
	p := open(t, "a", map[string]string{"b": "http://b.internal/base"})
	r := httptest.NewRequest(http.MethodGet, "/v1/exec/files/x", nil)
	for _, c := range []struct {
		name, id, node string
		err            error
	}{
		{"here", id(t, "a"), "", nil},
		{"anywhere", id(t, ""), "", nil},
		{"there", id(t, "b"), "b", nil},
		{"who knows where", id(t, "c"), "", ErrUnknownNode},
		{"never issued", strings.Repeat("A", 21), "", nil},
		{"no id", "../../x", "", nil},
	} {
		n, err := p.Away(r, c.id)
		if !errors.Is(err, c.err) || (n != nil) != (c.node != "") || n != nil && n.Name != c.node {
			t.Errorf("%s: %v, %v", c.name, n, err)
		}
	}
	var none *Peers
	if n, err := none.Away(r, id(t, "b")); n != nil || err != nil {
		t.Errorf("without peers: %v, %v", n, err)
	}
	if o := p.Others(r); len(o) != 1 || o[0].Name != "b" || p.Node() != "a" || len(none.Others(r)) != 0 || none.Node() != "" {
		t.Errorf("others %v of node %q", o, p.Node())
	}
	r.Header.Set(Header, "anything")
	if o := p.Others(r); len(o) != 0 {
		t.Errorf("what was passed on is passed on to %v", o)
	}
	if n, err := p.Away(r, id(t, "b")); n != nil || !errors.Is(err, ErrLoop) {
		t.Errorf("what was passed on is passed on again: %v, %v", n, err)
	}
	if err := none.Check(r); !errors.Is(err, ErrForged) {
		t.Errorf("Check without peers = %v", err)
	}
}

func TestForward(t *testing.T) {
	var arrived error
	var owner *Peers
	var got *http.Request
	var body string
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived = owner.Check(r)
		got = r
		all, _ := io.ReadAll(r.Body)
		body = string(all)
		w.Header().Set("Content-Type", "text/x")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "answer")
	}))
	defer b.Close()
	owner = open(t, "b", nil)
	a := open(t, "a", map[string]string{"b": b.URL})
	session := id(t, "b")
	ask := func(body io.Reader) (*httptest.ResponseRecorder, error) {
		r := httptest.NewRequest(http.MethodPost, "/v1/exec/files/"+session+"/a%2Fb?x=1", strings.NewReader("original"))
		r.Header.Set("Authorization", "Bearer the-callers")
		r.Header.Set("Connection", "X-Hop")
		r.Header.Set("X-Hop", "1")
		n, err := a.Away(r, session)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		var failed error
		n.Forward(w, r, body, func(err error) { failed = err })
		return w, failed
	}
	w, failed := ask(nil)
	if failed != nil || arrived != nil || w.Code != http.StatusTeapot || w.Body.String() != "answer" || w.Header().Get("Content-Type") != "text/x" {
		t.Errorf("answer %d %q, failed %v, arrived %v", w.Code, w.Body, failed, arrived)
	}
	if got.Header.Get("Authorization") != "Bearer the-callers" || got.Header.Get("X-Hop") != "" || got.URL.RequestURI() != "/v1/exec/files/"+session+"/a%2Fb?x=1" || body != "original" {
		t.Errorf("asked %s with %v, body %q", got.URL, got.Header, body)
	}
	if _, failed = ask(strings.NewReader("replayed")); failed != nil || body != "replayed" {
		t.Errorf("body %q, failed %v", body, failed)
	}

	// A tag is about one request, to one node, for a while, and of this deployment.
	passed := got.Header.Get(Header)
	for name, change := range map[string]func(r *http.Request, p **Peers){
		"another path":   func(r *http.Request, _ **Peers) { r.URL.Path, r.URL.RawPath = "/v1/exec", "" },
		"another method": func(r *http.Request, _ **Peers) { r.Method = http.MethodDelete },
		"another node":   func(_ *http.Request, p **Peers) { *p = open(t, "c", nil) },
		"much later":     func(_ *http.Request, p **Peers) { (*p).o.Now = func() time.Time { return time.Now().Add(time.Hour) } },
		"twice":          func(r *http.Request, _ **Peers) { r.Header.Add(Header, passed) },
		"nonsense":       func(r *http.Request, _ **Peers) { r.Header.Set(Header, "x y z") },
		"another deployment": func(_ *http.Request, p **Peers) {
			other, err := New(Options{Node: "b", Keys: keys(t, "a secret of somebody else's")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(other.Close)
			*p = other
		},
	} {
		r, p := got.Clone(t.Context()), open(t, "b", nil)
		if err := p.Check(r); err != nil {
			t.Fatal(err)
		}
		change(r, &p)
		if err := p.Check(r); !errors.Is(err, ErrForged) {
			t.Errorf("%s: Check = %v", name, err)
		}
	}

	b.Close()
	if w, failed = ask(nil); failed == nil || w.Body.Len() != 0 {
		t.Errorf("a node that is down: %v, wrote %q", failed, w.Body)
	}
}

func TestNew(t *testing.T) {
	for name, o := range map[string]Options{
		"no name":        {Peers: map[string]string{"b": "http://b"}},
		"no address":     {Node: "a", Peers: map[string]string{"b": "b:80"}},
		"a secret in it": {Node: "a", Peers: map[string]string{"b": "http://u:p@b"}},
		"itself":         {Node: "a", Peers: map[string]string{"a": "http://a"}},
	} {
		o.Keys = keys(t, secret)
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
