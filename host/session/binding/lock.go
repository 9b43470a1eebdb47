package binding

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Pauses between two attempts to take a lock that is held.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 250 * time.Millisecond
)

// Ownership is a lifecycle lock that is held.
type Ownership struct {
	*hold
	store *Store
	key   Key
	fence Fence
}

// Context ends when ownership ends, with ErrOwnershipLost as its cause if it was
// lost: another replica has the lock, or no renewal was answered in time. It does
// not end with the caller's request. Destructive work runs on it.
func (o *Ownership) Context() context.Context { return o.hold.ctx }

// Fence orders the owners of the session's lock: a later one has a larger fence.
func (o *Ownership) Fence() Fence { return o.fence }

// Err returns ErrOwnershipLost as soon as ownership is lost or can no longer be
// proven. It looks at the clock, so that it is true also right after the process was
// stopped and continued, before the context's timer had its turn.
func (o *Ownership) Err() error { return o.hold.err() }

// Verify proves ownership now, by renewing the lock in one step. Call it before work
// that cannot be undone: a store that was emptied has forgotten the lock, and the
// next renewal may be far. Any error means to leave everything as it is.
func (o *Ownership) Verify(ctx context.Context) error { return o.hold.renewNow(ctx) }

type ownershipKey struct{}

// OwnershipFrom returns the lifecycle lock that ctx was made under, or nil.
func OwnershipFrom(ctx context.Context) *Ownership {
	o, _ := ctx.Value(ownershipKey{}).(*Ownership)
	return o
}

// fence returns the fence of the lock on key that ctx was made under, zero if there
// is none.
func (s *Store) fence(ctx context.Context, key Key) (Fence, error) {
	o := OwnershipFrom(ctx)
	if o == nil || o.store != s || o.key != key {
		return 0, nil
	}
	return o.fence, o.Err()
}

// WithLifecycleLock calls fn while this caller, alone among all replicas, may create,
// replace or delete the session's sandbox. It waits for others, first come first
// served within the process, until ctx ends or LockWait passes ([ErrLockBusy]). The
// lock is not reentrant: fn must not ask for the same session's lock.
//
// fn's context is the caller's and ends with ownership too. The ownership's own
// context outlives the caller and ends when fn returns. Create and DeleteIfMatch
// under either are fenced: they fail with ErrOwnershipLost rather than act for an
// owner that is one no longer.
//
// Whatever fn returns is returned; if it failed and ownership was lost meanwhile, the
// error is ErrOwnershipLost too.
func (s *Store) WithLifecycleLock(ctx context.Context, key Key, fn func(ctx context.Context, own *Ownership) error) error {
	if err := key.Validate(); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, s.o.LockWait, ErrLockBusy)
	defer cancel()
	leave, err := s.queues.join(waiting, key)
	if err != nil {
		return s.gaveUp(ctx, waiting, err)
	}
	defer leave()
	own, err := s.lock(ctx, waiting, key)
	if err != nil {
		return err
	}
	defer own.hold.release()

	ctx = context.WithValue(ctx, ownershipKey{}, own)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(own.Context(), func() { stop(context.Cause(own.Context())) })()
	if err := fn(ctx, own); err != nil {
		if lost := own.Err(); lost != nil && !errors.Is(err, ErrOwnershipLost) {
			return fmt.Errorf("%w: %w", lost, err)
		}
		return err
	}
	return nil
}

// lock takes the lock, which others may hold, in bounded attempts.
func (s *Store) lock(ctx, waiting context.Context, key Key) (*Ownership, error) {
	own := &Ownership{store: s, key: key}
	holder := holderID()
	pause := firstPause
	for {
		asked := time.Now()
		var busy time.Duration
		fence, err := ask(waiting, s, "lock", func(ctx context.Context) (f Fence, err error) {
			f, busy, err = s.engine.Lock(ctx, key, holder, s.o.Lease)
			return f, err
		})
		if err != nil {
			// An attempt that was not answered may have taken it.
			s.releaseLease(ctx, key, LeaseLifecycle, holder)
			return nil, s.gaveUp(ctx, waiting, err)
		}
		if fence != 0 {
			own.fence = fence
			parent := context.WithValue(context.WithoutCancel(ctx), ownershipKey{}, own)
			own.hold, err = s.hold(parent, key, LeaseLifecycle, holder, asked)
			return own, err
		}
		// Jitter keeps replicas that wait for the same lock apart.
		wait := min(pause/2+rand.N(pause), max(busy, time.Millisecond))
		pause = min(2*pause, lastPause)
		if err := sleep(waiting, wait); err != nil {
			return nil, s.gaveUp(ctx, waiting, err)
		}
	}
}

// gaveUp tells the caller's end of waiting from ours.
func (s *Store) gaveUp(ctx, waiting context.Context, err error) error {
	if ctx.Err() == nil && waiting.Err() != nil && context.Cause(waiting) == ErrLockBusy {
		return ErrLockBusy
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
