package control

import (
	"context"
	"sync"
	"time"
)

// Clock is the wall limit of one run. It runs while the program does, stands still
// while calls are open, and starts anew from zero afterwards. It is safe for
// concurrent use.
type Clock struct {
	limit  time.Duration
	expire func()

	mu       sync.Mutex
	timer    *time.Timer
	since    time.Time     // of this stretch
	spent    time.Duration // in earlier ones
	standing bool
	stopped  bool
}

// NewClock starts a clock that calls expire once, from a goroutine of its own, when
// one stretch has lasted limit. Stop must be called.
func NewClock(limit time.Duration, expire func()) *Clock {
	c := &Clock{limit: limit, expire: expire, since: time.Now()}
	c.timer = time.AfterFunc(limit, c.fire)
	return c
}

// WithClock returns a context that ends with the cause when the clock has run out.
// The caller calls cancel at the end, with any cause, and the clock stops.
func WithClock(ctx context.Context, limit time.Duration, cause error) (context.Context, *Clock, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := NewClock(limit, func() { cancel(cause) })
	return ctx, c, func(why error) {
		c.Stop()
		cancel(why)
	}
}

func (c *Clock) fire() {
	c.mu.Lock()
	late := c.standing || c.stopped || time.Since(c.since) < c.limit // a timer of an earlier stretch
	if !late {
		c.stopped = true
		c.spent += time.Since(c.since)
	}
	c.mu.Unlock()
	if !late {
		c.expire()
	}
}

// Stand stops the clock until Go.
func (c *Clock) Stand() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standing || c.stopped {
		return
	}
	c.timer.Stop()
	c.standing = true
	c.spent += time.Since(c.since)
}

// Go starts the next stretch.
func (c *Clock) Go() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.standing || c.stopped {
		return
	}
	c.standing, c.since = false, time.Now()
	c.timer.Reset(c.limit)
}

// Stop stops it for good. Expire may be under way.
func (c *Clock) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.timer.Stop()
	if !c.standing {
		c.spent += time.Since(c.since)
	}
	c.stopped = true
}

// Spent is how long the clock has run, all stretches together.
func (c *Clock) Spent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standing || c.stopped {
		return c.spent
	}
	return c.spent + time.Since(c.since)
}
