// Package memory keeps sessions' bindings in this process: for tests, and for
// deployments of one process. What it knows ends with the process; sandboxes are
// then found again by their provider's metadata.
package memory

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// Options of NewEngine. The zero value is usable.
type Options struct {
	// Now is the clock that leases are measured by; nil means time.Now.
	Now func() time.Time
	// Journal keeps bindings beyond the process; nil keeps none.
	Journal Journal
}

// Journal writes down changes of bindings before they count. Calls come one at a
// time. A change that could not be written does not happen.
type Journal interface {
	Put(ctx context.Context, list ...binding.Binding) error
	Delete(ctx context.Context, key binding.Key) error
	Close() error
}

// Engine is a binding.Engine in memory. Safe for concurrent use.
type Engine struct {
	now     func() time.Time
	journal Journal
	// change is held by the one caller that changes bindings, during its write to
	// the journal too, which mu is not: reads go on meanwhile.
	change chan struct{}

	mu       sync.Mutex
	closed   bool
	sessions map[binding.Key]*session
	fence    binding.Fence // the last one given out, to any session
}

var _ binding.Engine = (*Engine)(nil)

// NewEngine returns an engine that knows the given bindings.
func NewEngine(o Options, known ...binding.Binding) *Engine {
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Engine{now: o.Now, journal: o.Journal, change: make(chan struct{}, 1), sessions: make(map[binding.Key]*session)}
	for _, b := range known {
		e.session(b.Key).binding = &b
	}
	return e
}

// New returns a store in memory.
func New(o binding.Options) (*binding.Store, error) { return binding.New(NewEngine(Options{}), o) }

// Journal is what NewEngine was given.
func (e *Engine) Journal() Journal { return e.journal }

// State implements binding.Engine.
func (e *Engine) State(_ context.Context, key binding.Key, rebuild binding.Rebuild) (st binding.State, err error) {
	err = e.on(key, func(s *session, _ time.Time) error {
		st = s.resolve(rebuild)
		return nil
	})
	return st, err
}

// Bindings implements binding.Engine.
func (e *Engine) Bindings(_ context.Context, keys []binding.Key) (map[binding.Key]binding.Binding, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, binding.ErrClosed
	}
	found := make(map[binding.Key]binding.Binding)
	for _, k := range keys {
		if s := e.sessions[k]; s != nil && s.binding != nil {
			found[k] = *s.binding
		}
	}
	return found, nil
}

// All implements binding.Engine.
func (e *Engine) All(ctx context.Context, f binding.Filter) iter.Seq2[binding.Binding, error] {
	return func(yield func(binding.Binding, error) bool) {
		list, err := e.matching(f)
		if err != nil {
			yield(binding.Binding{}, err)
			return
		}
		for _, b := range list {
			if err := ctx.Err(); err != nil {
				yield(binding.Binding{}, err)
				return
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

func (e *Engine) matching(f binding.Filter) ([]binding.Binding, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, binding.ErrClosed
	}
	var list []binding.Binding
	for _, s := range e.sessions {
		if s.binding != nil && f.Matches(*s.binding) {
			list = append(list, *s.binding)
		}
	}
	return list, nil
}

// Create implements binding.Engine.
func (e *Engine) Create(ctx context.Context, b binding.Binding, fence binding.Fence) (bool, error) {
	return e.patch(ctx, b.Key, fence, func(old *binding.Binding) (*binding.Binding, bool) {
		if old != nil {
			return old, old.Names(b.Provider, b.Sandbox)
		}
		return &b, true
	})
}

// DeleteIfMatch implements binding.Engine.
func (e *Engine) DeleteIfMatch(ctx context.Context, key binding.Key, provider, sandbox string, fence binding.Fence) (bool, error) {
	return e.patch(ctx, key, fence, func(old *binding.Binding) (*binding.Binding, bool) {
		if old == nil || !old.Names(provider, sandbox) {
			return old, false
		}
		return nil, true
	})
}

// ReplaceToken implements binding.Engine.
func (e *Engine) ReplaceToken(ctx context.Context, key binding.Key, provider, sandbox, token string) (bool, error) {
	return e.patch(ctx, key, 0, func(old *binding.Binding) (*binding.Binding, bool) {
		if old == nil || !old.Names(provider, sandbox) {
			return old, false
		}
		b := *old
		b.Token = token
		return &b, true
	})
}

// MarkStale implements binding.Engine.
func (e *Engine) MarkStale(ctx context.Context, tenant, config string) (int, error) {
	if err := e.enter(ctx); err != nil {
		return 0, err
	}
	defer e.leave()
	list, err := e.matching(binding.Filter{Tenant: tenant, Config: config})
	if err != nil {
		return 0, err
	}
	list = slices.DeleteFunc(list, func(b binding.Binding) bool { return !b.Stale.IsZero() })
	for i := range list {
		list[i].Stale = e.now().Truncate(time.Millisecond).UTC()
	}
	if e.journal != nil && len(list) > 0 {
		if err := e.journal.Put(ctx, list...); err != nil {
			return 0, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range list {
		e.session(list[i].Key).binding = &list[i]
	}
	return len(list), nil
}

// patch replaces a binding by what f makes of it, which is written down first. The
// binding that f gets is not changed but replaced.
func (e *Engine) patch(ctx context.Context, key binding.Key, fence binding.Fence, f func(*binding.Binding) (*binding.Binding, bool)) (ok bool, err error) {
	if err := e.enter(ctx); err != nil {
		return false, err
	}
	defer e.leave()
	var old, changed *binding.Binding
	err = e.on(key, func(s *session, _ time.Time) error {
		if fence != 0 && s.lock.fence != fence {
			return binding.ErrOwnershipLost
		}
		old = s.binding
		changed, ok = f(old)
		return nil
	})
	if err != nil || changed == old {
		return ok, err
	}
	if e.journal != nil {
		if changed == nil {
			err = e.journal.Delete(ctx, key)
		} else {
			err = e.journal.Put(ctx, *changed)
		}
		if err != nil {
			return false, err
		}
	}
	return ok, e.on(key, func(s *session, _ time.Time) error {
		s.binding = changed
		return nil
	})
}

// enter waits for the right to change bindings.
func (e *Engine) enter(ctx context.Context) error {
	select {
	case e.change <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) leave() { <-e.change }

// Check implements binding.Engine.
func (e *Engine) Check(context.Context) (binding.Report, error) {
	return binding.Report{Kind: "memory", Durable: e.journal != nil}, nil
}

// Close implements binding.Engine.
func (e *Engine) Close() error {
	e.change <- struct{}{}
	defer e.leave()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if e.journal != nil {
		return e.journal.Close()
	}
	return nil
}

// on runs f on a session as it is now, in one step, and forgets sessions of which
// nothing is left.
func (e *Engine) on(key binding.Key, f func(s *session, now time.Time) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return binding.ErrClosed
	}
	now := e.now()
	s := e.session(key)
	s.expire(now)
	err := f(s, now)
	if s.empty() {
		delete(e.sessions, key)
	}
	return err
}

func (e *Engine) session(key binding.Key) *session {
	s := e.sessions[key]
	if s == nil {
		s = &session{}
		e.sessions[key] = s
	}
	return s
}

func byID(a, b binding.Work) int { return strings.Compare(a.ID, b.ID) }
