package bindingtest

import (
	"sync"
	"time"
)

// Clock moves when it is told to. Safe for concurrent use.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

// NewClock returns a clock that stands at the time it is made, in whole milliseconds.
func NewClock() *Clock { return &Clock{t: time.Now().Truncate(time.Millisecond)} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}
