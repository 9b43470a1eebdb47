package exec

import (
	"context"
	"sync"
)

// claims has things done by one request at a time. The zero value is ready to use.
type claims struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when given back
}

// take waits until nobody has the claim of that key. Whoever takes it gives it back.
func (c *claims) take(ctx context.Context, key string) (giveBack func(), err error) {
	for {
		c.mu.Lock()
		other := c.held[key]
		if other == nil {
			mine := make(chan struct{})
			if c.held == nil {
				c.held = make(map[string]chan struct{})
			}
			c.held[key] = mine
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				delete(c.held, key)
				c.mu.Unlock()
				close(mine)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
