// Package quota bounds what each tenant keeps in uploads: files and bytes. Both
// are counted before they are stored, so that uploads at the same time cannot
// pass the bound together, and corrected afterwards.
//
// It keeps no record of its own. What a tenant holds is what the providers list;
// the counts here are a memory of it, made again after a restart and whenever
// they are old or stand in an upload's way. Several replicas each have their own
// view, so together they may pass the bound by what they took since they looked.
package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stale is how old a count may be before it is compared with the listing.
const stale = time.Minute

// Usage is what something holds.
type Usage struct{ Files, Bytes int64 }

func (u Usage) add(v Usage) Usage { return Usage{u.Files + v.Files, u.Bytes + v.Bytes} }
func (u Usage) sub(v Usage) Usage { return Usage{u.Files - v.Files, u.Bytes - v.Bytes} }

// ExceededError: storing more would pass the limit.
type ExceededError struct{ Limit Usage }

func (e *ExceededError) Error() string {
	return fmt.Sprintf("the quota of %d files and %d bytes is used up", e.Limit.Files, e.Limit.Bytes)
}

// Source says what a tenant holds.
type Source interface {
	// Held returns every live session of tenant. For those that known reports,
	// the usage is not looked at and need not be found out.
	Held(ctx context.Context, tenant string, known func(session string) bool) (map[string]Usage, error)
}

// Quota counts. It is safe for concurrent use.
type Quota struct {
	limit  Usage
	source Source
	now    func() time.Time

	mu      sync.Mutex
	tenants map[string]*tenant
}

type tenant struct {
	reading  chan struct{} // holds a token while nobody reads the listing
	checked  time.Time
	sessions map[string]entry
	stored   Usage // the sum of sessions
	pending  Usage
	grants   int
	round    int // of the last listing
}

type entry struct {
	Usage
	// round is the listing during which the entry was made: that one may have
	// been too early to show it.
	round int
}

// New returns a Quota of limit for each tenant. A zero member does not bound.
func New(limit Usage, source Source, now func() time.Time) *Quota {
	return &Quota{limit: limit, source: source, now: now, tenants: make(map[string]*tenant)}
}

// Grant is one upload in progress. One goroutine uses it.
type Grant struct {
	q      *Quota
	t      *tenant
	ctx    context.Context
	name   string
	held   Usage
	looked bool
	done   bool
}

// Begin starts an upload for a tenant. Its error means that what the tenant
// holds cannot be established now. Whoever begins ends.
func (q *Quota) Begin(ctx context.Context, name string) (*Grant, error) {
	q.mu.Lock()
	t := q.tenants[name]
	if t == nil {
		t = &tenant{reading: make(chan struct{}, 1), sessions: make(map[string]entry)}
		t.reading <- struct{}{}
		q.tenants[name] = t
	}
	t.grants++
	fresh := !t.checked.IsZero() && q.now().Sub(t.checked) < stale
	first := t.checked.IsZero()
	q.mu.Unlock()

	g := &Grant{q: q, t: t, ctx: ctx, name: name}
	if fresh {
		return g, nil
	}
	g.looked = true
	// An old count still bounds when the listing is out of reach; no count does not.
	if err := q.read(ctx, name, t); err != nil && (first || ctx.Err() != nil) {
		g.End()
		return nil, fmt.Errorf("establish what is uploaded: %w", err)
	}
	return g, nil
}

// Add counts what is about to be stored, or returns an *ExceededError and counts
// nothing.
func (g *Grant) Add(u Usage) error {
	err := g.add(u)
	var exceeded *ExceededError
	if errors.As(err, &exceeded) && !g.looked {
		// Sessions may have ended since the last look.
		g.looked = true
		if g.q.read(g.ctx, g.name, g.t) == nil {
			return g.add(u)
		}
	}
	return err
}

func (g *Grant) add(u Usage) error {
	g.q.mu.Lock()
	defer g.q.mu.Unlock()
	would := g.t.stored.add(g.t.pending).add(u)
	if l := g.q.limit; l.Files > 0 && would.Files > l.Files || l.Bytes > 0 && would.Bytes > l.Bytes {
		return &ExceededError{Limit: l}
	}
	g.t.pending = g.t.pending.add(u)
	g.held = g.held.add(u)
	return nil
}

// Store counts u as held by session from now on, in place of as much of what
// this grant added: what was added in steps is corrected here.
func (g *Grant) Store(session string, u Usage) {
	g.q.mu.Lock()
	defer g.q.mu.Unlock()
	moved := Usage{min(u.Files, g.held.Files), min(u.Bytes, g.held.Bytes)}
	g.held = g.held.sub(moved)
	g.t.pending = g.t.pending.sub(moved)
	g.t.put(session, entry{Usage: g.t.sessions[session].add(u), round: g.t.round})
}

// Back gives back some of what was added and will not be stored.
func (g *Grant) Back(u Usage) {
	g.q.mu.Lock()
	defer g.q.mu.Unlock()
	u = Usage{min(u.Files, g.held.Files), min(u.Bytes, g.held.Bytes)}
	g.held = g.held.sub(u)
	g.t.pending = g.t.pending.sub(u)
}

// End gives back what was added. What was stored stays counted.
func (g *Grant) End() {
	g.q.mu.Lock()
	defer g.q.mu.Unlock()
	if g.done {
		return
	}
	g.done = true
	g.t.pending = g.t.pending.sub(g.held)
	if g.t.grants--; g.t.grants == 0 && len(g.t.sessions) == 0 {
		delete(g.q.tenants, g.name)
	}
}

// Remove uncounts what was deleted from a session.
func (q *Quota) Remove(name, session string, u Usage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tenants[name]
	if t == nil {
		return
	}
	if e, ok := t.sessions[session]; ok {
		e.Files, e.Bytes = max(0, e.Files-u.Files), max(0, e.Bytes-u.Bytes)
		t.put(session, e)
	}
}

func (t *tenant) put(session string, e entry) {
	t.drop(session)
	t.sessions[session] = e
	t.stored = t.stored.add(e.Usage)
}

func (t *tenant) drop(session string) {
	t.stored = t.stored.sub(t.sessions[session].Usage)
	delete(t.sessions, session)
}

// read compares the counts with the listing. One reads at a time.
func (q *Quota) read(ctx context.Context, name string, t *tenant) error {
	select {
	case <-t.reading:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { t.reading <- struct{}{} }()

	q.mu.Lock()
	t.round++
	round := t.round
	q.mu.Unlock()
	held, err := q.source.Held(ctx, name, func(session string) bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		_, ok := t.sessions[session]
		return ok
	})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for session, e := range t.sessions {
		if _, live := held[session]; !live && e.round < round {
			t.drop(session)
		}
	}
	for session, u := range held {
		if _, known := t.sessions[session]; !known {
			t.put(session, entry{Usage: u, round: round})
		}
	}
	t.checked = q.now()
	return nil
}
