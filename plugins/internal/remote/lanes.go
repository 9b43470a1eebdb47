package remote

import (
	"context"
	"sync"
)

// lanes lets one creation of a session happen at a time.
type lanes struct {
	mu   sync.Mutex
	busy map[string]*lane
}

type lane struct {
	users int
	turn  chan struct{}
}

// enter waits for the turn of a key; leave must follow.
func (l *lanes) enter(ctx context.Context, key string) (leave func(), err error) {
	l.mu.Lock()
	if l.busy == nil {
		l.busy = make(map[string]*lane)
	}
	x := l.busy[key]
	if x == nil {
		x = &lane{turn: make(chan struct{}, 1)}
		l.busy[key] = x
	}
	x.users++
	l.mu.Unlock()
	out := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if x.users--; x.users == 0 {
			delete(l.busy, key)
		}
	}
	select {
	case x.turn <- struct{}{}:
		return func() { <-x.turn; out() }, nil
	case <-ctx.Done():
		out()
		return nil, ctx.Err()
	}
}
