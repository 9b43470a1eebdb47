package programmatic

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Registry has the programs of one process. It is safe for concurrent use.
type Registry[R any] struct {
	o Options

	mu      sync.Mutex // guards all that programs hold, too
	closed  bool
	live    map[*Program[R]]struct{}
	tenants map[string]int // how many of them live
	// tokens has the current token of each program and those of its earlier rounds.
	tokens map[string]*Program[R]
	// kept are programs that are over and whose last reply can be had, oldest first.
	kept     []*Program[R]
	requests map[request]map[*Program[R]]struct{}
	canceled cancellations
	empty    chan struct{} // closed once closed and nobody lives
}

// request is one request as its caller names it.
type request struct {
	owner Owner
	id    string
}

// New returns an empty registry.
func New[R any](o Options) *Registry[R] {
	return &Registry[R]{
		o:       o,
		live:    make(map[*Program[R]]struct{}),
		tenants: make(map[string]int), tokens: make(map[string]*Program[R]),
		requests: make(map[request]map[*Program[R]]struct{}),
		canceled: cancellations{lasting: o.Remember, tenants: make(map[string]map[request]time.Time)},
		empty:    make(chan struct{}),
	}
}

// Begin makes a program of owner that may call these tools. requestID is what a
// cancellation will name; empty means none. slot is given back when the program does not
// run any more, also when Begin fails. The errors are ErrClosed, ErrCanceled and
// *FullError; after success Run must follow.
func (r *Registry[R]) Begin(owner Owner, requestID string, tools []string, slot Slot) (*Program[R], error) {
	p, err := r.begin(owner, requestID, tools, slot)
	if err != nil {
		slot.Leave()
		return nil, err
	}
	return p, nil
}

func (r *Registry[R]) begin(owner Owner, requestID string, tools []string, slot Slot) (*Program[R], error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := request{owner, requestID}
	switch {
	case r.closed:
		return nil, ErrClosed
	case requestID != "" && r.canceled.take(q):
		return nil, ErrCanceled
	case len(r.live) >= r.o.Programs:
		return nil, &FullError{Live: len(r.live)}
	case r.tenants[owner.Tenant] >= r.o.TenantPrograms:
		return nil, &FullError{Live: r.tenants[owner.Tenant]}
	}
	p := &Program[R]{
		r: r, owner: owner, slot: slot,
		tools: make(map[string]bool, len(tools)), spent: make(map[string]digest),
		event: make(chan Event[R], 1), pause: r.o.Gather,
	}
	for _, t := range tools {
		p.tools[t] = true
	}
	r.live[p] = struct{}{}
	r.tenants[owner.Tenant]++
	p.answers(q)
	return p, nil
}

// answers notes that q, too, is about the program. mu is held.
func (p *Program[R]) answers(q request) {
	if q.id == "" {
		return
	}
	if p.r.requests[q] == nil {
		p.r.requests[q] = make(map[*Program[R]]struct{})
	}
	p.r.requests[q][p] = struct{}{}
	p.requests = append(p.requests, q)
}

// ended takes a program out of those that live. mu is held.
func (r *Registry[R]) ended(p *Program[R]) {
	delete(r.live, p)
	tenant := p.owner.Tenant
	if r.tenants[tenant]--; r.tenants[tenant] == 0 {
		delete(r.tenants, tenant)
	}
	for _, q := range p.requests {
		m := r.requests[q]
		if delete(m, p); len(m) == 0 {
			delete(r.requests, q)
		}
	}
	p.requests = nil
	r.settle()
}

// settle notices that the last one has ended. mu is held.
func (r *Registry[R]) settle() {
	if r.closed && len(r.live) == 0 {
		select {
		case <-r.empty:
		default:
			close(r.empty)
		}
	}
}

// keep lets a program that is over be asked for its last reply for a while, if it had any
// continuation. mu is held.
func (r *Registry[R]) keep(p *Program[R]) {
	if r.closed || p.last == nil {
		p.forget()
		return
	}
	if len(r.kept) >= r.o.Programs {
		r.unkeep(r.leastKept(p.owner.Tenant))
	}
	r.kept = append(r.kept, p)
	var none R
	p.outcome = none // the reply is all that may be asked for
	p.timer = time.AfterFunc(r.o.Keep, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.unkeep(p)
	})
}

// leastKept is the program that gives way to one more of tenant: the oldest of whom the most
// is kept then, so that nobody's flood costs others their replies. mu is held.
func (r *Registry[R]) leastKept(tenant string) *Program[R] {
	n := map[string]int{tenant: 1}
	for _, p := range r.kept {
		n[p.owner.Tenant]++
	}
	least := r.kept[0]
	for _, p := range r.kept {
		if n[p.owner.Tenant] > n[least.owner.Tenant] {
			least = p
		}
	}
	return least
}

// unkeep forgets a program that is over. mu is held.
func (r *Registry[R]) unkeep(p *Program[R]) {
	for i, o := range r.kept {
		if o == p {
			r.kept = append(r.kept[:i:i], r.kept[i+1:]...)
			break
		}
	}
	p.forget()
}

// Cancel ends the programs of that request, or its program once it comes. It tells
// nobody whether there was one.
func (r *Registry[R]) Cancel(owner Owner, requestID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := request{owner, requestID}
	if len(r.requests[q]) == 0 {
		if !r.closed {
			r.canceled.add(&r.mu, q)
		}
		return
	}
	for p := range maps.Clone(r.requests[q]) {
		p.stop(ErrCanceled)
	}
}

// Close lets nobody begin any more and ends those that are suspended, as nobody could
// continue them. Those that run go on until they would be suspended.
func (r *Registry[R]) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.canceled.clear()
	for len(r.kept) > 0 {
		r.unkeep(r.kept[0])
	}
	for p := range r.live {
		if p.state == suspended || p.unread {
			p.stop(ErrClosed)
		}
	}
	r.settle()
}

// Closed reports whether Close was called.
func (r *Registry[R]) Closed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Wait waits until Close was called and no program lives, or ctx ends.
func (r *Registry[R]) Wait(ctx context.Context) error {
	select {
	case <-r.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Live counts the programs that live and, of those, the suspended ones.
func (r *Registry[R]) Live() (all, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.live {
		if p.state == suspended || p.unread {
			waiting++
		}
	}
	return len(r.live), waiting
}
