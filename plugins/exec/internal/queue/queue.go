// Package queue bounds how many runs go on at once, for each tenant and in all,
// and how many may wait. Waiting is first come first served within a tenant; of
// several tenants, the one with the fewest runs under way comes next, so that one
// tenant's burst delays itself. What runs declare that they may use of this machine's
// memory is kept within a budget, of programs that wait for their callers too.
//
// It knows nothing of sessions or money: a place is an entitlement, no more.
package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
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

// Limits of a queue. Those of places are positive.
type Limits struct {
	// Running and Waiting bound the whole queue.
	Running, Waiting int
	// TenantRunning and TenantWaiting bound each tenant.
	TenantRunning, TenantWaiting int
	// TenantShare bounds each tenant's runs on this machine while another tenant has runs
	// there, or has had any within the last ten seconds; 0 does not. A run that comes finds a
	// part of the machine free then, although nothing was taken from runs under way.
	TenantShare int
	// Memory bounds the bytes that all runs under way declared together, and
	// TenantMemory those of each tenant; 0 does not. A run that declares more than
	// there is in all runs alone. Runs that keep their memory have half of Memory at
	// most, so that there is always some that comes back, and those of one tenant half of
	// that, or of TenantMemory: it may take long until they give it back.
	Memory, TenantMemory int64
}

// patience is how many runs may begin before one for which there is no memory yet.
// Then nobody begins until there is: small runs must not keep a large one out.
const patience = 16

// Queue hands out places. It is safe for concurrent use.
type Queue struct {
	limits Limits

	mu      sync.Mutex
	tenants map[string]*tenant
	turns   []*tenant // those with waiters, next first
	places  int
	running int
	memory  int64 // of those that run, and held
	held    int64 // of that by runs that keep theirs
	present int   // tenants with runs on this machine
	// last is who was seen last, and before the last one that was somebody else.
	last, before seen
	again        *time.Timer // dispatches once more; nil when nobody waits for a share to end

	closed bool
	empty  chan struct{} // closed once the queue is closed and nobody is left
}

type tenant struct {
	name            string
	places, running int
	here            int // of those that run
	holds           int
	memory, held    int64
	waiting         []*Place
}

// Place is one taken place.
type Place struct {
	q *Queue
	t *tenant

	state     state
	need      int64 // bytes
	lasts     bool  // it will keep them
	resumes   bool
	elsewhere bool
	passed    int // runs that began before this one although it had come first
	granted   chan struct{}
}

type state int

const (
	joined state = iota
	waiting
	running
	done
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
	q.see(name)
	return &Place{q: q, t: t, granted: make(chan struct{})}, nil
}

// Need says, before the place waits, that the run takes place on this machine and how many
// bytes of memory it may use.
func (p *Place) Need(bytes int64) {
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	if p.state == joined {
		p.need, p.elsewhere = max(0, bytes), false
	}
}

// Elsewhere says, before the place waits, that the run takes place on other machines: it
// needs no memory of this one, and no share of its processors.
func (p *Place) Elsewhere() {
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	if p.state == joined {
		p.need, p.elsewhere = 0, true
	}
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
		at := len(p.t.waiting)
		if i := slices.IndexFunc(p.t.waiting, func(o *Place) bool { return !o.resumes }); p.resumes && i >= 0 {
			at = i
		}
		p.t.waiting = slices.Insert(p.t.waiting, at, p)
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

// Done says that the run is over, or has given up waiting: another may begin. The place
// stays taken until Leave, as what is left to do holds memory too: an answer that its
// reader takes slowly. Before Wait it does nothing.
func (p *Place) Done() {
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	switch p.state {
	case running:
		p.stop()
	case waiting:
		p.withdraw()
	default:
		return
	}
	p.state = done
	p.q.dispatch()
}

// Again says that the run of a place did not come about: it may wait for another, and
// takes nobody's turn until then.
func (p *Place) Again() {
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	if p.state == running {
		p.stop()
		p.state, p.need, p.lasts, p.elsewhere = joined, 0, false, false
		p.granted = make(chan struct{})
		p.q.dispatch()
	}
}

// withdraw takes a place that waits out of the line.
func (p *Place) withdraw() {
	t := p.t
	t.waiting = slices.DeleteFunc(t.waiting, func(o *Place) bool { return o == p })
	if len(t.waiting) == 0 {
		p.q.turns = slices.DeleteFunc(p.q.turns, func(o *tenant) bool { return o == t })
	}
}

// stop takes back what a running place was granted.
func (p *Place) stop() {
	p.t.running--
	if !p.elsewhere {
		if p.t.here--; p.t.here == 0 {
			p.q.present--
		}
		p.q.see(p.t.name)
	}
	p.t.memory -= p.need
	p.q.running--
	p.q.memory -= p.need
	if p.lasts {
		p.q.held -= p.need
		p.t.held -= p.need
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
		p.withdraw()
	case running:
		p.stop()
	}
	p.state = left
	q.places--
	t.places--
	q.forget(t)
	q.dispatch()
	q.settle()
}

// dispatch lets run whom the limits allow.
func (q *Queue) dispatch() {
	for q.running < q.limits.Running {
		i, p := q.next()
		if p == nil {
			return
		}
		t := p.t
		t.waiting = slices.DeleteFunc(t.waiting, func(o *Place) bool { return o == p })
		q.turns = slices.Delete(q.turns, i, i+1)
		if len(t.waiting) > 0 {
			q.turns = append(q.turns, t)
		}
		t.running++
		if !p.elsewhere {
			if t.here++; t.here == 1 {
				q.present++
			}
		}
		t.memory += p.need
		q.running++
		q.memory += p.need
		if p.lasts {
			q.held += p.need
			t.held += p.need
		}
		p.state = running
		close(p.granted)
	}
}

// next is the turn that comes next and whose of its tenant it is, or nobody's: of the
// tenants with the fewest runs the one that waits longest. A run for which there is no
// memory is passed over for a while.
func (q *Queue) next() (best int, place *Place) {
	var passed []*Place
	for i, t := range q.turns {
		p := q.first(t)
		switch {
		case p == nil:
		// Its own tenant's runs are in the way.
		case t.running >= q.limits.TenantRunning:
		case !q.share(t, p):
		case !q.room(p):
			if p.passed >= patience {
				return 0, nil
			}
			passed = append(passed, p)
		case place == nil || t.running < q.turns[best].running:
			best, place = i, p
		}
	}
	if place != nil {
		for _, p := range passed {
			p.passed++
		}
	}
	return best, place
}

// first is who of a tenant comes next. Whoever needs memory that programs keep which wait
// for their callers may wait long, which is not the concern of those behind; nor is the
// tenant's share of this machine that of its runs elsewhere.
func (q *Queue) first(t *tenant) *Place {
	full := t.here >= q.most(t)
	for _, p := range t.waiting {
		switch {
		case !q.comes(t, p):
		case full && !p.elsewhere:
			q.lookAgain()
		default:
			return p
		}
	}
	return nil
}

// Stats are a queue at one moment.
type Stats struct {
	// Places are all that are taken, Running and Waiting those that run and wait for
	// their turn, Tenants whose they are.
	Places, Running, Waiting, Tenants int
	// Memory is what the running ones declared, and those that keep theirs, in bytes.
	Memory int64
}

// Stats counts.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{Places: q.places, Running: q.running, Tenants: len(q.tenants), Memory: q.memory}
	for _, t := range q.turns {
		s.Waiting += len(t.waiting)
	}
	return s
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
