package binding

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// hold is a lease that is renewed until it is released or lost.
type hold struct {
	store  *Store
	key    Key
	what   Lease
	holder string

	ctx    context.Context
	cancel context.CancelCauseFunc
	start  time.Time     // origin of until
	until  atomic.Int64  // proven until then, in monotonic ns after start
	mu     sync.Mutex    // orders changes of until and expiry
	expiry *time.Timer   // cancels at until
	done   chan struct{} // closed by release
	ended  atomic.Bool
}

// margin is how long before the end of a lease its holder gives up: what it started
// just before has that long to end, and clocks that long to disagree.
func (s *Store) margin() time.Duration { return s.o.Lease / 6 }

// hold starts to renew a lease that was asked for at asked.
func (s *Store) hold(parent context.Context, key Key, what Lease, holder string, asked time.Time) (*hold, error) {
	h := &hold{store: s, key: key, what: what, holder: holder, start: asked, done: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancelCause(parent)
	h.until.Store(int64(s.o.Lease - s.margin()))
	h.expiry = time.AfterFunc(time.Until(asked.Add(s.o.Lease-s.margin())), h.lose)

	s.mu.Lock()
	closed := s.closed.Load()
	if !closed {
		s.leases.Add(1)
	}
	s.mu.Unlock()
	if closed {
		h.release()
		return nil, ErrClosed
	}
	go h.keep()
	return h, nil
}

// keep renews until the hold ends. Failed renewals are repeated a few times before
// the lease runs out, and never after.
func (h *hold) keep() {
	s := h.store
	defer s.leases.Done()
	every := s.o.Lease / 3
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-h.ctx.Done():
			return
		case <-s.stop:
			h.lose()
			return
		case <-timer.C:
		}
		switch err := h.renewNow(h.ctx); {
		case err == nil:
			timer.Reset(every)
		case errors.Is(err, ErrOwnershipLost):
			return
		default:
			timer.Reset(every / 8)
		}
	}
}

// renewNow renews once. ErrOwnershipLost is final.
func (h *hold) renewNow(ctx context.Context) error {
	if err := h.err(); err != nil {
		return err
	}
	asked := time.Now()
	ctx, cancel := context.WithDeadline(ctx, h.start.Add(time.Duration(h.until.Load())))
	defer cancel()
	held, err := ask(ctx, h.store, "renew "+string(h.what), func(ctx context.Context) (bool, error) {
		return h.store.engine.Renew(ctx, h.key, h.what, h.holder, h.store.o.Lease)
	})
	switch {
	case err != nil:
		if lost := h.err(); lost != nil {
			return lost
		}
		return err
	case !held:
		h.lose()
		return h.err()
	}
	h.extend(asked)
	return h.err()
}

// extend counts the lease anew from when the renewal was asked for. A hold that has
// ended is not brought back.
func (h *hold) extend(asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	until := asked.Add(h.store.o.Lease - h.store.margin())
	if int64(until.Sub(h.start)) <= h.until.Load() || !h.expiry.Stop() {
		return // an older answer, or too late
	}
	h.until.Store(int64(until.Sub(h.start)))
	h.expiry.Reset(time.Until(until))
}

// err returns why the hold ended, or nil while it is proven.
func (h *hold) err() error {
	if h.ctx.Err() == nil {
		if int64(time.Since(h.start)) < h.until.Load() {
			return nil
		}
		h.lose()
	}
	return context.Cause(h.ctx)
}

// lose ends the hold for its holder.
func (h *hold) lose() {
	if h.ctx.Err() != nil {
		return
	}
	h.cancel(ErrOwnershipLost)
	h.store.o.Log.Warn("ownership of a session was lost: what it protected was stopped", "lease", h.what, "session", h.key.Session)
}

// release ends the hold and tells the engine, in bounded time. Further calls do nothing.
func (h *hold) release() {
	if h.ended.Swap(true) {
		return
	}
	close(h.done)
	h.expiry.Stop()
	ctx := h.ctx
	h.cancel(errReleased)
	h.store.releaseLease(ctx, h.key, h.what, h.holder)
}

var errReleased = errors.New("the session's lock was released")

// releaseLease gives a lease back, also after ctx ended. What cannot be given back
// ends by itself.
func (s *Store) releaseLease(ctx context.Context, key Key, what Lease, holder string) {
	_, err := ask(context.WithoutCancel(ctx), s, "release "+string(what), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.engine.Release(ctx, key, what, holder)
	})
	if err != nil {
		s.o.Log.Warn("a lease was not given back and lasts until it ends by itself", "lease", what, "session", key.Session, "error", err)
	}
}
