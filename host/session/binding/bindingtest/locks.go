package bindingtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

const lease = time.Minute // the default, for Advance

func testLockExcludes(t *testing.T, s *suite) {
	var inside, total atomic.Int32
	var last atomic.Uint64
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			err := []*binding.Store{s.a, s.b}[i%2].WithLifecycleLock(t.Context(), key, func(_ context.Context, own *binding.Ownership) error {
				if inside.Add(1) != 1 {
					t.Error("two are inside")
				}
				defer inside.Add(-1)
				total.Add(1)
				if before := last.Swap(uint64(own.Fence())); uint64(own.Fence()) <= before {
					t.Errorf("fence %d after %d", own.Fence(), before)
				}
				return own.Err()
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if total.Load() != 24 {
		t.Errorf("%d were inside, want 24", total.Load())
	}
	// Locks of different sessions do not wait for each other.
	noErr(t, "outer lock", s.a.WithLifecycleLock(t.Context(), key, func(ctx context.Context, _ *binding.Ownership) error {
		return s.a.WithLifecycleLock(ctx, binding.Key{Tenant: "acme", Session: "s2"}, func(ctx context.Context, own *binding.Ownership) error {
			_, err := s.a.Create(ctx, bound(key, "x")) // under the outer fence no more, under none
			return errors.Join(err, own.Verify(ctx))
		})
	}))
}

func testLockContexts(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(t.Context())
	var kept context.Context
	failed := errors.New("failed")
	err := s.a.WithLifecycleLock(ctx, key, func(ctx context.Context, own *binding.Ownership) error {
		kept = own.Context()
		if binding.OwnershipFrom(ctx) != own || binding.OwnershipFrom(own.Context()) != own {
			t.Error("the contexts do not carry the ownership")
		}
		cancel()
		<-ctx.Done()
		if own.Context().Err() != nil || own.Err() != nil {
			t.Error("the caller's end ended ownership")
		}
		// Cleaning up on the ownership's context still works, and is fenced.
		if ok, err := s.a.Create(own.Context(), bound(key, "x")); err != nil || !ok {
			t.Errorf("Create = %v, %v", ok, err)
		}
		noErr(t, "Verify", own.Verify(own.Context()))
		return failed
	})
	wantErr(t, "WithLifecycleLock", err, failed)
	if errors.Is(err, binding.ErrOwnershipLost) {
		t.Error("an ordinary failure is ErrOwnershipLost")
	}
	if kept.Err() == nil {
		t.Error("ownership outlived the lock")
	}
	if _, err := s.a.DeleteIfMatch(context.WithoutCancel(kept), key, "p", "x"); err == nil {
		t.Error("a released lock still lets its holder delete")
	}
	s.expect(t, bound(key, "x"))

	// A panic releases too.
	func() {
		defer func() { _ = recover() }()
		_ = s.a.WithLifecycleLock(t.Context(), key, func(context.Context, *binding.Ownership) error { panic("x") })
	}()
	noErr(t, "lock after a panic", s.b.WithLifecycleLock(t.Context(), key, func(context.Context, *binding.Ownership) error { return nil }))
}

// hold takes the lock on one store until the function it returns is called.
func hold(t *testing.T, s *binding.Store, k binding.Key) (own *binding.Ownership, release func()) {
	t.Helper()
	taken, leave, left := make(chan *binding.Ownership), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		err := s.WithLifecycleLock(context.Background(), k, func(_ context.Context, own *binding.Ownership) error {
			taken <- own
			<-leave
			return nil
		})
		if err != nil {
			t.Errorf("hold: %v", err)
		}
	}()
	return <-taken, sync.OnceFunc(func() { close(leave); <-left })
}

func testLockWaiting(t *testing.T, s *suite) {
	_, release := hold(t, s.a, key)
	defer release()
	enter := func(context.Context, *binding.Ownership) error { t.Error("two are inside"); return nil }
	for _, waiter := range []struct {
		name string
		e    binding.Engine
	}{{"same replica", s.Replicas[0]}, {"another replica", s.Replicas[1]}} {
		impatient := store(t, waiter.e, binding.Options{LockWait: 30 * time.Millisecond})
		err := impatient.WithLifecycleLock(t.Context(), key, enter)
		wantErr(t, waiter.name, err, binding.ErrLockBusy)
	}
	for name, waiter := range map[string]*binding.Store{"same store": s.a, "other store": s.b} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err := waiter.WithLifecycleLock(ctx, key, enter)
		cancel()
		wantErr(t, name, err, context.DeadlineExceeded)
		if errors.Is(err, binding.ErrUnavailable) {
			t.Errorf("%s: waiting for a lock is ErrUnavailable: %v", name, err)
		}
	}
	// A waiter that gave up left nothing behind, and the next gets the lock.
	got := make(chan error, 1)
	go func() {
		got <- s.b.WithLifecycleLock(context.Background(), key, func(context.Context, *binding.Ownership) error { return nil })
	}()
	release()
	noErr(t, "the next", <-got)
}

// The lock of a holder that died is free after its lease, and not before.
func testLockDead(t *testing.T, s *suite) {
	dead := s.Replicas[0]
	fence, _, err := dead.Lock(t.Context(), key, "the dead", lease)
	noErr(t, "Lock", err)
	s.Advance(lease - time.Second)
	again, busy, err := s.Replicas[1].Lock(t.Context(), key, "heir", lease)
	if err != nil || again != 0 || busy <= 0 || busy > time.Second {
		t.Fatalf("Lock = %d, %v, %v; want busy for at most a second", again, busy, err)
	}
	s.Advance(time.Second)
	again, _, err = s.Replicas[1].Lock(t.Context(), key, "heir", lease)
	if err != nil || again <= fence {
		t.Fatalf("Lock = %d, %v; want a fence above %d", again, err, fence)
	}
	if held, err := dead.Renew(t.Context(), key, binding.LeaseLifecycle, "the dead", lease); err != nil || held {
		t.Errorf("Renew of the dead = %v, %v", held, err)
	}
	noErr(t, "Release of the dead", dead.Release(t.Context(), key, binding.LeaseLifecycle, "the dead"))
	if held, err := s.Replicas[1].Renew(t.Context(), key, binding.LeaseLifecycle, "heir", lease); err != nil || !held {
		t.Errorf("Renew of the heir = %v, %v: the dead released it", held, err)
	}
}

// The lock goes to another replica while its holder was stopped: the holder can do no
// harm any more, and learns of it.
func testLockLost(t *testing.T, s *suite) {
	err := s.a.WithLifecycleLock(t.Context(), key, func(ctx context.Context, own *binding.Ownership) error {
		if ok, err := s.a.Create(ctx, bound(key, "mine")); err != nil || !ok {
			t.Fatalf("Create = %v, %v", ok, err)
		}
		s.Advance(2 * lease)
		// Nobody has it now, and that is enough.
		_, err := s.a.DeleteIfMatch(ctx, key, "p", "mine")
		wantErr(t, "DeleteIfMatch after the lease", err, binding.ErrOwnershipLost)
		if fence, _, err := s.Replicas[1].Lock(t.Context(), key, "thief", lease); err != nil || fence <= own.Fence() {
			t.Fatalf("Lock = %d, %v", fence, err)
		}
		_, err = s.a.DeleteIfMatch(ctx, key, "p", "mine")
		wantErr(t, "DeleteIfMatch under another's lock", err, binding.ErrOwnershipLost)
		_, err = s.a.Create(ctx, bound(key, "mine"))
		wantErr(t, "Create under another's lock", err, binding.ErrOwnershipLost)
		wantErr(t, "Verify", own.Verify(ctx), binding.ErrOwnershipLost)
		<-own.Context().Done()
		<-ctx.Done()
		wantErr(t, "cause", context.Cause(own.Context()), binding.ErrOwnershipLost)
		wantErr(t, "cause of the request", context.Cause(ctx), binding.ErrOwnershipLost)
		wantErr(t, "Err", own.Err(), binding.ErrOwnershipLost)
		return ctx.Err()
	})
	wantErr(t, "WithLifecycleLock", err, binding.ErrOwnershipLost)
	s.expect(t, bound(key, "mine"))
	if held, err := s.Replicas[1].Renew(t.Context(), key, binding.LeaseLifecycle, "thief", lease); err != nil || !held {
		t.Errorf("Renew of the new owner = %v, %v: the old one released it", held, err)
	}
}

// Renewals that are not answered end ownership before the lease can be another's.
func testLockUnproven(t *testing.T, s *suite) {
	const short = 600 * time.Millisecond
	var cut atomic.Bool
	var tried atomic.Int32
	cutOff := store(t, &Faulty{Engine: s.Replicas[0], Before: func(ctx context.Context, op string) error {
		if op != "Renew" || !cut.Load() {
			return nil
		}
		tried.Add(1)
		if tried.Load()%2 == 0 { // one hangs, one is refused
			<-ctx.Done()
			return ctx.Err()
		}
		return &binding.Error{Reason: binding.Down, Err: errors.New("cut off")}
	}}, binding.Options{Lease: short})
	err := cutOff.WithLifecycleLock(t.Context(), key, func(_ context.Context, own *binding.Ownership) error {
		cut.Store(true)
		start := time.Now()
		<-own.Context().Done()
		if d := time.Since(start); d > 5*short {
			t.Errorf("ownership lasted %v of a lease of %v", d, short)
		}
		wantErr(t, "cause", context.Cause(own.Context()), binding.ErrOwnershipLost)
		return own.Err()
	})
	wantErr(t, "WithLifecycleLock", err, binding.ErrOwnershipLost)
	if n := tried.Load(); n < 1 || n > 20 {
		t.Errorf("%d renewals were tried, want a few", n)
	}
}

// A lock that was taken by an attempt without an answer does not stay behind.
func testLockAnswerLost(t *testing.T, s *suite) {
	lost := store(t, &Faulty{Engine: s.Replicas[0], After: func(op string) error {
		if op == "Lock" {
			return &binding.Error{Reason: binding.Down, Err: fmt.Errorf("the answer was lost")}
		}
		return nil
	}}, binding.Options{})
	enter := func(context.Context, *binding.Ownership) error { return nil }
	wantErr(t, "lock", lost.WithLifecycleLock(t.Context(), key, enter), binding.ErrUnavailable)
	patient := store(t, s.Replicas[1], binding.Options{LockWait: 5 * time.Second})
	noErr(t, "the next", patient.WithLifecycleLock(t.Context(), key, enter))
}
