//go:build linux

package work

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// Calls passes the calls of one run on to whoever serves them, and the answers back.
type Calls struct {
	out      chan Outgoing
	gone     chan struct{} // closed when the run ends
	end      func()
	attached atomic.Bool

	mu      sync.Mutex
	waiting map[string]chan control.Reply // by id; each has room for one
}

// Outgoing is what is to be sent next.
type Outgoing struct {
	Call  agentwire.Call
	Input []byte
}

func newCalls() *Calls {
	gone := make(chan struct{})
	return &Calls{
		out: make(chan Outgoing), gone: gone, end: sync.OnceFunc(func() { close(gone) }),
		waiting: make(map[string]chan control.Reply),
	}
}

// Attach reports whether nobody serves the calls yet.
func (c *Calls) Attach() bool { return !c.attached.Swap(true) }

// Out has what is to be sent, Gone is closed when nothing more will be.
func (c *Calls) Out() <-chan Outgoing  { return c.out }
func (c *Calls) Gone() <-chan struct{} { return c.gone }

// Answer passes an answer on. One that nobody waits for any more is dropped.
func (c *Calls) Answer(id string, reply control.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[id]; w != nil {
		delete(c.waiting, id)
		w <- reply
	}
}

// call makes a call and waits for its answer.
func (c *Calls) call(ctx context.Context, call control.Call) (control.Reply, error) {
	answered := make(chan control.Reply, 1)
	c.mu.Lock()
	c.waiting[call.ID] = answered
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, call.ID)
		c.mu.Unlock()
	}()
	select {
	case c.out <- Outgoing{agentwire.Call{ID: call.ID, Name: call.Name, Size: len(call.Input)}, call.Input}:
	case <-ctx.Done():
		return control.Reply{}, ctx.Err()
	case <-c.gone:
		return control.Reply{}, control.ErrClosed
	}
	call.Input = nil
	select {
	case reply := <-answered:
		return reply, nil
	case <-c.gone:
		return control.Reply{}, control.ErrClosed
	case <-ctx.Done():
	}
	select {
	case c.out <- Outgoing{Call: agentwire.Call{ID: call.ID, Withdrawn: true}}:
	case <-c.gone:
		return control.Reply{}, ctx.Err()
	}
	select { // the plugin allows no more to be open than a program may have
	case <-answered:
	case <-c.gone:
	}
	return control.Reply{}, ctx.Err()
}
