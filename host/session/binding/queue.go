package binding

import (
	"context"
	"sync"
)

// queues order the waiters of this process for each lock, first come first served,
// so that only one of them asks the engine.
type queues struct {
	mu sync.Mutex
	m  map[Key]*queue
}

type queue struct {
	turn chan struct{} // holds one token while nobody is at the head
	refs int
}

// join waits until the caller is at the head. It returns ctx's error.
func (qs *queues) join(ctx context.Context, key Key) (leave func(), err error) {
	qs.mu.Lock()
	q := qs.m[key]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		q.turn <- struct{}{}
		if qs.m == nil {
			qs.m = make(map[Key]*queue)
		}
		qs.m[key] = q
	}
	q.refs++
	qs.mu.Unlock()
	out := func() {
		qs.mu.Lock()
		defer qs.mu.Unlock()
		if q.refs--; q.refs == 0 {
			delete(qs.m, key)
		}
	}
	select {
	case <-q.turn:
		return func() { q.turn <- struct{}{}; out() }, nil
	case <-ctx.Done():
		out()
		return nil, ctx.Err()
	}
}
