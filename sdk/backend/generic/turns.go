package generic

import (
	"cmp"
	"context"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Turns lets runs of one sandbox follow each other, for backends with a Run of their
// own. It is safe for concurrent use.
type Turns struct {
	waiting int

	mu    sync.Mutex
	turns map[backend.Ref]*turn
}

// NewTurns returns turns with room for that many runs that wait in each sandbox;
// 0 is the default of Options.
func NewTurns(waiting int) *Turns {
	return &Turns{waiting: cmp.Or(waiting, 32), turns: make(map[backend.Ref]*turn)}
}

// turn is whose turn it is in one sandbox.
type turn struct {
	users int // running and waiting
	busy  chan struct{}
}

// Enter waits for the sandbox's turn, at most until ctx ends; leave must follow. When
// too many wait already it is a backend.KindCapacity.
func (r *Turns) Enter(ctx context.Context, ref backend.Ref) (leave func(), err error) {
	r.mu.Lock()
	t := r.turns[ref]
	if t == nil {
		t = &turn{busy: make(chan struct{}, 1)}
		r.turns[ref] = t
	}
	if t.users > r.waiting {
		r.mu.Unlock()
		return nil, backend.Errorf(backend.KindCapacity, op, "%d runs wait for this sandbox", r.waiting)
	}
	t.users++
	r.mu.Unlock()

	out := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(r.turns, ref)
		}
	}
	select {
	case t.busy <- struct{}{}:
		return func() { <-t.busy; out() }, nil
	case <-ctx.Done():
		out()
		return nil, ctx.Err()
	}
}
