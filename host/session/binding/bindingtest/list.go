package bindingtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

func testList(t *testing.T, s *suite) {
	var keys []binding.Key
	for i := range 300 { // more than one round trip
		k := binding.Key{Tenant: fmt.Sprintf("t%d", i%3), Session: fmt.Sprint(i)}
		b := bound(k, fmt.Sprint(i))
		b.Config = fmt.Sprintf("c%d", i%2)
		s.create(t, b, true)
		keys = append(keys, k)
	}
	count := func(f binding.Filter) int {
		t.Helper()
		seen := map[binding.Key]bool{}
		for b, err := range s.b.All(t.Context(), f) {
			noErr(t, "All", err)
			if seen[b.Key] || !f.Matches(b) {
				t.Fatalf("%v is listed twice or does not match", b)
			}
			seen[b.Key] = true
		}
		return len(seen)
	}
	for _, c := range []struct {
		f    binding.Filter
		want int
	}{
		{binding.Filter{}, 300},
		{binding.Filter{Tenant: "t0"}, 100},
		{binding.Filter{Config: "c0"}, 150},
		{binding.Filter{Tenant: "t1", Config: "c1"}, 50},
		{binding.Filter{Tenant: "t"}, 0},
	} {
		if n := count(c.f); n != c.want {
			t.Errorf("All(%+v) lists %d, want %d", c.f, n, c.want)
		}
	}
	for range s.b.All(t.Context(), binding.Filter{}) {
		break // stopping early is allowed
	}
	got, err := s.a.Bindings(t.Context(), append(keys, binding.Key{Tenant: "t0", Session: "absent"}))
	noErr(t, "Bindings", err)
	if len(got) != 300 || got[keys[299]].Sandbox != "299" {
		t.Errorf("Bindings has %d, want 300", len(got))
	}
}

func testKeys(t *testing.T, s *suite) {
	list := []binding.Key{
		{Tenant: "a", Session: "b"},
		{Tenant: "a:b", Session: "c"},
		{Tenant: "a", Session: "b:c"},
		{Tenant: "a:", Session: "b"},
		{Tenant: "a", Session: ":b"},
		{Tenant: "1:a", Session: "b"},
		{Tenant: "A", Session: "b"},
		{Tenant: "é", Session: "e"},
		{Tenant: "a", Session: "b:binding"},
		{Tenant: "a", Session: "b lock"},
		{Tenant: " a", Session: "b"},
	}
	for i, k := range list {
		s.create(t, bound(k, fmt.Sprint(i)), true)
	}
	for i, k := range list {
		s.expect(t, bound(k, fmt.Sprint(i)))
		turn, _, err := s.a.BeginTurn(t.Context(), k, binding.Keep)
		noErr(t, "BeginTurn", err)
		defer turn.End()
		if st, err := s.b.State(t.Context(), k, binding.Keep); err != nil || st.Turns != 1 {
			t.Errorf("%v has %d turns, %v; want its own", k, st.Turns, err)
		}
	}
}

func testCheck(t *testing.T, s *suite) {
	r, err := s.a.Check(t.Context())
	if err != nil || r.Kind == "" {
		t.Errorf("Check = %+v, %v", r, err)
	}
}

func testClosed(t *testing.T, s *suite) {
	noErr(t, "Close", s.a.Close())
	noErr(t, "second Close", s.a.Close())
	_, _, err := s.a.Get(t.Context(), key)
	wantErr(t, "Get", err, binding.ErrClosed)
	_, err = s.a.Create(t.Context(), bound(key, "x"))
	wantErr(t, "Create", err, binding.ErrClosed)
	wantErr(t, "lock", s.a.WithLifecycleLock(t.Context(), key, func(context.Context, *binding.Ownership) error { return nil }), binding.ErrClosed)
	_, _, err = s.a.BeginTurn(t.Context(), key, binding.Keep)
	wantErr(t, "BeginTurn", err, binding.ErrClosed)
	_, err = s.a.MarkStale(t.Context(), "acme", "main")
	wantErr(t, "MarkStale", err, binding.ErrClosed)
	for _, err := range s.a.All(t.Context(), binding.Filter{}) {
		wantErr(t, "All", err, binding.ErrClosed)
	}
}

// A caller that went away is told that, not that the store is unavailable.
func testCanceled(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stalled := store(t, &Faulty{Engine: s.Replicas[0], Before: func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return ctx.Err()
	}}, binding.Options{OpTimeout: 20 * time.Millisecond})
	_, _, err := stalled.Get(ctx, key)
	wantErr(t, "Get", err, context.Canceled)
	if errors.Is(err, binding.ErrUnavailable) {
		t.Errorf("a cancelled call is ErrUnavailable: %v", err)
	}
	// A store that takes longer than allowed is unavailable.
	_, _, err = stalled.Get(t.Context(), key)
	wantErr(t, "slow Get", err, binding.ErrUnavailable)
	var e *binding.Error
	if !errors.As(err, &e) || e.Reason != binding.Slow || e.RetryAfter <= 0 || e.Op == "" {
		t.Errorf("slow Get = %#v", e)
	}
}
