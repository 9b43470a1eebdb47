package envd_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
)

// frozen is a stand whose gateway takes requests of some paths and never says a word, not
// even headers, once so many of them were answered. Each of those comes up in seen.
func frozen(t *testing.T, path string, answered int64) (s *stand, seen chan struct{}) {
	t.Helper()
	seen = make(chan struct{}, 100)
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path || n.Add(1) <= answered {
			s.gateway.ServeHTTP(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // before that nobody would see the client leave
		seen <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() }) // after the stand's own
	s = newStand(t, options{
		machine: envdfake.Options{KeepAlive: time.Hour},
		change:  func(o *envd.Options) { o.Gateway, o.Silence = server.URL, time.Hour },
	})
	return s, seen
}

// TestFrozenStart: whoever waits for a program of a sandbox that says nothing waits as
// long as it likes, and not for the silence to be too long.
func TestFrozenStart(t *testing.T) {
	for name, c := range map[string]struct {
		path string
		call func(context.Context, *stand, backend.Ref) error
	}{
		"a terminal": {"/process.Process/Start", func(ctx context.Context, s *stand, ref backend.Ref) error {
			_, err := s.OpenTerminal(ctx, backend.TerminalSpec{Ref: ref})
			return err
		}},
		"a terminal that runs": {"/process.Process/Connect", func(ctx context.Context, s *stand, ref backend.Ref) error {
			term := s.open(backend.TerminalSpec{Ref: ref})
			defer term.Close()
			_, err := s.OpenTerminal(ctx, backend.TerminalSpec{Ref: ref, PID: term.PID()})
			return err
		}},
		"a command": {"/process.Process/Start", func(ctx context.Context, s *stand, ref backend.Ref) error {
			_, err := s.Exec(ctx, backend.ExecRequest{Ref: ref, Argv: []string{"true"}})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, seen := frozen(t, c.path, 0)
			ref := s.sandbox()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- c.call(ctx, s, ref) }()
			<-seen
			cancel()
			if err := within(t, done); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that the caller left", err)
			}
		})
	}
}

// TestFrozenKill: a command whose sandbox froze cannot be killed, which is tried for a
// while only.
func TestFrozenKill(t *testing.T) {
	s, seen := frozen(t, "/process.Process/Start", 1)
	ref := s.sandbox()
	done := make(chan error, 1)
	go func() {
		res, err := s.Exec(t.Context(), backend.ExecRequest{Ref: ref, Argv: []string{"sleep", "1000"}, Timeout: time.Second})
		if err == nil && res.Stop != backend.StopTimeout {
			t.Errorf("result %+v", res)
		}
		done <- err
	}()
	<-seen // the one that should kill
	if err := within(t, done); err != nil {
		t.Error(err)
	}
}

// within waits for the end of a call that ends by itself.
func within(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("it waits for the end of the silence")
		return nil
	}
}
