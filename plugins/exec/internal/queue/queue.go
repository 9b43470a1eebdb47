// Package queue bounds how many runs go on at once, for each tenant and in all,
// and how many may wait. Waiting is first come first served within a tenant and
// in turns between tenants, so that one tenant's burst delays itself.
//
// It knows nothing of sessions or money: a place is an entitlement, no more.
package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrClosed: the queue takes nobody any more.
var ErrClosed = errors.New("the queue is closed")

// FullError: there is no place left.
type FullError struct {
	// Places is how many are taken, Running how many of a tenant's (or of all)
	// may run at once: together they say how long the wait would be.
	Places, Running int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("all %d places are taken, %d run at once", e.Places, e.Running)
}

// Limits of a queue. All are positive.
type Limits struct {
	// Running and Waiting bound the whole queue.
	Running, Waiting int
	// TenantRunning and TenantWaiting bound each tenant.
	TenantRunning, TenantWaiting int
}

// Queue hands out places. It is safe for concurrent use.
type Queue struct {
	limits Limits

	mu      sync.Mutex
	tenants map[string]*tenant
	turns   []*tenant // those with waiters, next first
	places  int
	running int
	closed  bool
	empty   chan struct{} // closed once the queue is closed and nobody is left
}

type tenant struct {
	name            string
	places, running int
	waiting         []*Place
}

// Place is one taken place.
type Place struct {
	q *Queue
	t *tenant

	state   state
	granted chan struct{}
}

type state int

const (
	joined state = iota
	waiting
	running
	left
)

// New returns an empty queue.
func New(l Limits) *Queue {
	return &Queue{limits: l, tenants: make(map[string]*tenant), empty: make(chan struct{})}
}

// Join takes a place, without waiting: it returns a *FullError when there is
// none and ErrClosed after Close. Whoever joins leaves.
func (q *Queue) Join(name string) (*Place, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, ErrClosed
	}
	if q.places >= q.limits.Running+q.limits.Waiting {
		return nil, &FullError{Places: q.places, Running: q.limits.Running}
	}
	t := q.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		q.tenants[name] = t
	}
	if t.places >= q.limits.TenantRunning+q.limits.TenantWaiting {
		return nil, &FullError{Places: t.places, Running: q.limits.TenantRunning}
	}
	t.places++
	q.places++
	return &Place{q: q, t: t, granted: make(chan struct{})}, nil
}

// Wait returns once it is this place's turn to run, or with ctx's error. A place
// that runs already does not wait again. One goroutine uses a place.
func (p *Place) Wait(ctx context.Context) error {
	p.q.mu.Lock()
	if p.state == joined {
		p.state = waiting
		if len(p.t.waiting) == 0 {
			p.q.turns = append(p.q.turns, p.t)
		}
		p.t.waiting = append(p.t.waiting, p)
		p.q.dispatch()
	}
	p.q.mu.Unlock()
	select {
	case <-p.granted:
		return nil
	default:
	}
	select {
	case <-p.granted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave gives the place back, whatever its state. Further calls do nothing.
func (p *Place) Leave() {
	q, t := p.q, p.t
	q.mu.Lock()
	defer q.mu.Unlock()
	switch p.state {
	case left:
		return
	case waiting:
		t.waiting = slices.DeleteFunc(t.waiting, func(o *Place) bool { return o == p })
		if len(t.waiting) == 0 {
			q.turns = slices.DeleteFunc(q.turns, func(o *tenant) bool { return o == t })
		}
	case running:
		t.running--
		q.running--
	}
	p.state = left
	q.places--
	if t.places--; t.places == 0 {
		delete(q.tenants, t.name)
	}
	q.dispatch()
	q.settle()
}

// dispatch lets run whom the limits allow.
func (q *Queue) dispatch() {
	for q.running < q.limits.Running {
		i := slices.IndexFunc(q.turns, func(t *tenant) bool { return t.running < q.limits.TenantRunning })
		if i < 0 {
			return
		}
		t := q.turns[i]
		p := t.waiting[0]
		t.waiting = t.waiting[1:]
		q.turns = slices.Delete(q.turns, i, i+1)
		if len(t.waiting) > 0 {
			q.turns = append(q.turns, t)
		}
		t.running++
		q.running++
		p.state = running
		close(p.granted)
	}
}

// Close lets nobody join any more. Those who have a place keep it.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		q.settle()
	}
}

// Closed reports whether Close was called.
func (q *Queue) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *Queue) settle() {
	if q.closed && q.places == 0 {
		select {
		case <-q.empty:
		default:
			close(q.empty)
		}
	}
}

// Empty is closed once the queue is closed and everybody has left.
func (q *Queue) Empty() <-chan struct{} { return q.empty }
