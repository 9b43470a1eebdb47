package exec

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// slowWalks is a backend whose sandboxes take until released to look through.
type slowWalks struct {
	backend.Backend
	under   atomic.Int64
	release chan struct{}
}

func (s *slowWalks) Walk(ctx context.Context, _ backend.WalkRequest) (backend.WalkResult, error) {
	s.under.Add(1)
	defer s.under.Add(-1)
	select {
	case <-s.release:
	case <-ctx.Done():
	}
	return backend.WalkResult{}, ctx.Err()
}

// A tenant that looks through its sessions all the time leaves room for others, and an
// end of the caller's gives its place back.
func TestLooksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(time.Minute)
		b := &slowWalks{release: make(chan struct{})}
		x := &finding{Session: session.Session{Target: session.Target{Backend: b}}}
		ctx, cancel := context.WithCancel(t.Context())
		walk := func(ctx context.Context, tenant string) {
			go func() { _, _ = l.walk(ctx, tenant, x, nil) }()
		}
		for range 100 {
			walk(ctx, "flood")
		}
		synctest.Wait()
		if got, most := b.under.Load(), int64(runtime.GOMAXPROCS(0)); got != most {
			t.Errorf("%d of a flood at once, want %d", got, most)
		}
		walk(t.Context(), "other")
		synctest.Wait()
		if got, want := b.under.Load(), int64(runtime.GOMAXPROCS(0)+1); got != want {
			t.Errorf("%d at once beside a flood, want another one", got)
		}
		full := make(chan error, 1)
		go func() {
			_, err := l.walk(t.Context(), "flood", x, nil)
			full <- err
		}()
		// As long as a run waits for its turn.
		if he, ok := errors.AsType[*host.HTTPError](<-full); !ok || he.Status != 429 {
			t.Errorf("after a minute: %v", he)
		}
		cancel()
		synctest.Wait()
		if s := l.walks.Stats(); s.Places != 1 || s.Running != 1 {
			t.Errorf("after the flood: %+v", s)
		}
		close(b.release)
	})
}

// Long answers stay in memory until their readers have them, and are few.
func TestLongAnswersAreFew(t *testing.T) {
	l := newLooks(time.Minute)
	first, err := l.answer("a", long)
	if err != nil {
		t.Fatal(err)
	}
	for range 7 {
		if _, err := l.answer("a", long); err != nil {
			t.Fatal(err)
		}
	}
	_, err = l.answer("a", long)
	if he, ok := errors.AsType[*host.HTTPError](err); !ok || he.Status != 429 || he.RetryAfter == 0 {
		t.Errorf("a ninth one: %v", err)
	}
	for who, files := range map[string]int{"a": long - 1, "b": long} {
		if _, err := l.answer(who, files); err != nil {
			t.Errorf("%d files of %s: %v", files, who, err)
		}
	}
	first()
	if _, err := l.answer("a", long); err != nil {
		t.Errorf("once one has gone: %v", err)
	}
}
