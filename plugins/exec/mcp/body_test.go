package mcp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/exec/internal/bodies"
)

// The memory of requests at once is bounded for each organisation, and small ones are let in.
func TestBodiesAtOnce(t *testing.T) {
	s, err := New(Options{Handler: nothing, BodyBytes: 1 << 20, BodyMemoryBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	read := func(org string, size int) (share *bodies.Body, code int) {
		share = s.bodies.Open(org)
		r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(strings.Repeat("x", size)))
		if _, refused := s.read(httptest.NewRecorder(), r, share); refused != nil {
			return share, refused.Status
		}
		if b, err := io.ReadAll(r.Body); err != nil || len(b) != size {
			t.Errorf("%d of %d bytes, %v", len(b), size, err)
		}
		return share, http.StatusOK
	}
	const large = 700 << 10
	for _, step := range []struct {
		name, org string
		size      int
		want      int
	}{
		{"one that is too large", "c", 1<<20 + 1, http.StatusRequestEntityTooLarge},
		{"the first", "a", large, http.StatusOK},
		{"another of the same", "a", large, http.StatusTooManyRequests},
		{"a small one", "a", 16 << 10, http.StatusOK},
		{"another organisation's", "b", large, http.StatusOK},
	} {
		share, got := read(step.org, step.size)
		if got != step.want {
			t.Errorf("%s: %d, want %d", step.name, got, step.want)
		}
		if got != http.StatusOK {
			share.Close() // as answer does, with every one
			continue
		}
		defer share.Close()
	}
	m := &alone{mux: http.NewServeMux()}
	s.Mount(m)
	defer func() {
		if err := m.closers[0](t.Context()); err != nil {
			t.Error(err)
		}
	}()
	before := s.bodies.Used()
	for _, body := range []string{hello, `{"jsonrpc":"2.0","id":1,"method":"ping","x":"` + strings.Repeat("x", 100<<10) + `"}`, "no JSON " + strings.Repeat("x", 100<<10)} {
		r := httptest.NewRequest(http.MethodPost, Path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		m.mux.ServeHTTP(httptest.NewRecorder(), r)
		if got := s.bodies.Used(); got != before {
			t.Errorf("%.40s: %d bytes are held after the answer", body, got-before)
		}
	}
}
