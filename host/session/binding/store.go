package binding

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Options of New. The zero value is usable.
type Options struct {
	// OpTimeout bounds each step an engine is asked for; 0 means 2 s.
	OpTimeout time.Duration
	// SweepTimeout bounds MarkStale, All and Bindings, which take many steps; 0
	// means 1 min.
	SweepTimeout time.Duration
	// Lease is how long locks and turns last unless renewed; 0 means 60 s, and less
	// than 100 ms is refused. It is renewed every third of it. A holder gives up a
	// sixth before the end unless a renewal was answered.
	Lease time.Duration
	// LockWait bounds waiting for a lifecycle lock; 0 means 2 min. It should cover
	// the creation of a sandbox.
	LockWait time.Duration
	// Log receives what no caller can be told: locks that were lost or could not be
	// released. Nil discards it.
	Log hclog.Logger
}

// Store keeps the bindings, locks, turns and work of sessions. All methods are safe
// for concurrent use. Arguments that break a rule are [FieldError], before anything
// is asked.
type Store struct {
	engine Engine
	o      Options
	queues queues

	closed   atomic.Bool
	mu       sync.Mutex // guards holds, and orders Close and new renewals
	holds    map[*hold]struct{}
	renewals sync.WaitGroup // those that run
}

// New returns a store over an engine, which it closes.
func New(engine Engine, o Options) (*Store, error) {
	for _, d := range []struct {
		field string
		value *time.Duration
		def   time.Duration
	}{
		{"OpTimeout", &o.OpTimeout, 2 * time.Second},
		{"SweepTimeout", &o.SweepTimeout, time.Minute},
		{"Lease", &o.Lease, time.Minute},
		{"LockWait", &o.LockWait, 2 * time.Minute},
	} {
		if *d.value < 0 {
			return nil, &FieldError{Field: d.field, Rule: "must not be negative"}
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if o.Lease < 100*time.Millisecond {
		return nil, &FieldError{Field: "Lease", Rule: "must be at least 100ms"}
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	return &Store{engine: engine, o: o, holds: make(map[*hold]struct{})}, nil
}

// State reads a session in one step. With Spend it is a resolve: State.MayRebuild
// of the answer says whether a stale sandbox may be replaced now, and for later
// resolves of the same turn it will not.
func (s *Store) State(ctx context.Context, key Key, rebuild Rebuild) (State, error) {
	if err := key.Validate(); err != nil {
		return State{}, err
	}
	return ask(ctx, s, "state", func(ctx context.Context) (State, error) { return s.engine.State(ctx, key, rebuild) })
}

// Get returns a session's binding and whether there is one.
func (s *Store) Get(ctx context.Context, key Key) (Binding, bool, error) {
	st, err := s.State(ctx, key, Keep)
	return st.Binding, st.Bound, err
}

// Bindings reads many sessions at once, those of a provider's listing for instance;
// a session without a binding is missing in the answer. What cannot be read is an
// error beside the others: a session that is in neither is not bound.
func (s *Store) Bindings(ctx context.Context, keys []Key) (map[Key]Binding, error) {
	for _, k := range keys {
		if err := k.Validate(); err != nil {
			return nil, err
		}
	}
	if err := s.open(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.o.SweepTimeout)
	defer cancel()
	m, err := s.engine.Bindings(bounded, keys)
	return m, s.explain(ctx, "bindings", err)
}

// All yields the bindings that pass the filter, for operators. A record that cannot
// be read is an error in between.
func (s *Store) All(ctx context.Context, f Filter) iter.Seq2[Binding, error] {
	return func(yield func(Binding, error) bool) {
		if err := s.open(); err != nil {
			yield(Binding{}, err)
			return
		}
		bounded, cancel := context.WithTimeout(ctx, s.o.SweepTimeout)
		defer cancel()
		for b, err := range s.engine.All(bounded, f) {
			if !yield(b, s.explain(ctx, "list", err)) {
				return
			}
		}
	}
}

// Create stores b, without expiry, if its session is not bound, and reports whether
// the session is bound to b's sandbox now. It is false if another sandbox is bound.
func (s *Store) Create(ctx context.Context, b Binding) (bool, error) {
	b.Created = b.Created.Truncate(time.Millisecond).UTC()
	b.Stale = b.Stale.Truncate(time.Millisecond).UTC()
	if err := b.Validate(); err != nil {
		return false, err
	}
	fence, err := s.fence(ctx, b.Key)
	if err != nil {
		return false, err
	}
	return ask(ctx, s, "create", func(ctx context.Context) (bool, error) { return s.engine.Create(ctx, b, fence) })
}

// DeleteIfMatch unbinds a session if it is bound to that sandbox of that provider,
// and reports whether it did.
func (s *Store) DeleteIfMatch(ctx context.Context, key Key, provider, sandbox string) (bool, error) {
	if err := key.Validate(); err != nil {
		return false, err
	}
	fence, err := s.fence(ctx, key)
	if err != nil {
		return false, err
	}
	return ask(ctx, s, "delete", func(ctx context.Context) (bool, error) {
		return s.engine.DeleteIfMatch(ctx, key, provider, sandbox, fence)
	})
}

// ReplaceToken changes the token of a session that is bound to that sandbox of that
// provider and leaves everything else as it is, a concurrent stale mark included. It
// reports whether the binding matched. An empty token changes nothing and is false.
func (s *Store) ReplaceToken(ctx context.Context, key Key, provider, sandbox, token string) (bool, error) {
	if err := key.Validate(); err != nil {
		return false, err
	}
	if err := checkText("token", token, MaxToken); err != nil {
		return false, err
	}
	if token == "" {
		return false, nil
	}
	return ask(ctx, s, "replace token", func(ctx context.Context) (bool, error) {
		return s.engine.ReplaceToken(ctx, key, provider, sandbox, token)
	})
}

// MarkStale marks the bindings of one tenant's config, whose image was replaced,
// and returns how many it marked: those that are marked already do not count. An
// error may come after some were marked; marking again completes it. Bindings
// without a config match none.
func (s *Store) MarkStale(ctx context.Context, tenant, config string) (int, error) {
	if err := checkName("tenant", tenant, MaxTenant); err != nil {
		return 0, err
	}
	if err := checkName("config", config, MaxConfig); err != nil {
		return 0, err
	}
	if err := s.open(); err != nil {
		return 0, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.o.SweepTimeout)
	defer cancel()
	n, err := s.engine.MarkStale(bounded, tenant, config)
	return n, s.explain(ctx, "mark stale", err)
}

// Check asks how the store is. An error means that it cannot be used now.
func (s *Store) Check(ctx context.Context) (Report, error) {
	return ask(ctx, s, "check", s.engine.Check)
}

// Close ends renewals, so that what is still held is lost, and closes the engine.
// A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed.Swap(true)
	held := slices.Collect(maps.Keys(s.holds))
	s.mu.Unlock()
	if again {
		return nil
	}
	for _, h := range held {
		h.lose()
	}
	s.renewals.Wait()
	if err := s.engine.Close(); err != nil {
		return fmt.Errorf("session store: close: %w", err)
	}
	return nil
}

func (s *Store) open() error {
	if s.closed.Load() {
		return ErrClosed
	}
	return nil
}

// ask bounds one step and explains its error.
func ask[T any](ctx context.Context, s *Store, op string, step func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := s.open(); err != nil {
		return zero, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.o.OpTimeout)
	defer cancel()
	v, err := step(bounded)
	if err != nil {
		return zero, s.explain(ctx, op, err)
	}
	return v, nil
}

// explain names the operation in an engine's error. If the caller's own context has
// ended, that is why there was no answer; if only the time that we allow has, the store
// is slow.
func (s *Store) explain(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	typed := errors.As(err, &e)
	ended := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	switch {
	case ctx.Err() != nil && (ended || (typed && e.Reason == Slow)):
		return fmt.Errorf("session store: %s: %w", op, ctx.Err())
	case typed && e.Op == "":
		named := *e // the engine may hand one error to many
		if named.Op = op; err != error(e) {
			named.Err = err
		}
		return &named
	case typed:
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Op: op, Reason: Slow, RetryAfter: time.Second, Err: err}
	}
	return fmt.Errorf("session store: %s: %w", op, err)
}

// holderID is the unguessable name of one hold of one lease.
func holderID() string { return rand.Text() }
