package binding

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// hold is a lease that is renewed until it is released or lost. It has no goroutine of
// its own: most are released before their first renewal.
type hold struct {
	store  *Store
	key    Key
	what   Lease
	holder string

	// ctx ends with the hold. A turn's does not: nobody works on it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	start  time.Time    // origin of until
	until  atomic.Int64 // proven until then, in monotonic ns after start

	mu     sync.Mutex  // orders the changes of what follows
	ended  bool        // released or lost
	renew  *time.Timer // renews
	expiry *time.Timer // loses at until; nil for a turn
}

// margin is how long before the end of a lease its holder gives up: what it started
// just before has that long to end, and clocks that long to disagree.
func (s *Store) margin() time.Duration { return s.o.Lease / 6 }

// hold starts to renew a lease that was asked for at asked.
func (s *Store) hold(parent context.Context, key Key, what Lease, holder string, asked time.Time) (*hold, error) {
	h := &hold{store: s, key: key, what: what, holder: holder, start: asked, ctx: parent, cancel: func(error) {}}
	h.until.Store(int64(s.o.Lease - s.margin()))
	h.mu.Lock()
	defer h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		return nil, ErrClosed
	}
	s.holds[h] = struct{}{}
	h.renew = time.AfterFunc(s.o.Lease/3, h.keep)
	if what != LeaseTurn {
		h.ctx, h.cancel = context.WithCancelCause(parent)
		h.expiry = time.AfterFunc(time.Until(asked.Add(s.o.Lease-s.margin())), h.lose)
	}
	return h, nil
}

// keep renews, and sets the time of the next renewal. Failed ones are repeated a few
// times before the lease runs out, and never after, but for a turn: it may have ended
// in the engine meanwhile, and is then opened again.
func (h *hold) keep() {
	s := h.store
	s.mu.Lock()
	_, live := s.holds[h]
	if live {
		s.renewals.Add(1)
	}
	s.mu.Unlock()
	if !live {
		return
	}
	defer s.renewals.Done()
	next := s.o.Lease / 3
	if err := h.renewNow(h.ctx); err != nil {
		next /= 8
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended && h.ctx.Err() == nil {
		h.renew.Reset(next)
	}
}

// renewNow renews once. ErrOwnershipLost is final.
func (h *hold) renewNow(ctx context.Context) error {
	if err := h.err(); err != nil {
		return err
	}
	asked := time.Now()
	if h.expiry != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, h.start.Add(time.Duration(h.until.Load())))
		defer cancel()
	}
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
		return ErrOwnershipLost
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
	if h.ended || int64(until.Sub(h.start)) <= h.until.Load() {
		return // too late, or an older answer
	}
	if h.expiry != nil {
		if !h.expiry.Stop() {
			return
		}
		h.expiry.Reset(time.Until(until))
	}
	h.until.Store(int64(until.Sub(h.start)))
}

// err returns why the hold ended, or nil while it is proven.
func (h *hold) err() error {
	if h.ctx.Err() == nil {
		if h.expiry == nil || int64(time.Since(h.start)) < h.until.Load() {
			return nil
		}
		h.lose()
	}
	return context.Cause(h.ctx)
}

// lose ends the hold for its holder.
func (h *hold) lose() {
	if h.end(ErrOwnershipLost) {
		h.store.o.Log.Warn("ownership of a session was lost: what it protected was stopped", "lease", h.what, "session", h.key.Session)
	}
}

// release ends the hold and gives the lease back, in bounded time. Further calls do
// nothing.
func (h *hold) release() {
	h.end(errReleased)
	h.mu.Lock()
	renew := h.renew
	h.renew = nil
	h.mu.Unlock()
	if renew != nil {
		h.store.releaseLease(h.ctx, h.key, h.what, h.holder)
	}
}

// end ends the hold and reports whether it had not ended before.
func (h *hold) end(cause error) bool {
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return false
	}
	h.stop()
	h.mu.Unlock()
	h.cancel(cause)
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	delete(h.store.holds, h)
	return true
}

// stop ends renewals. The caller has mu.
func (h *hold) stop() {
	h.ended = true
	h.renew.Stop()
	if h.expiry != nil {
		h.expiry.Stop()
	}
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
