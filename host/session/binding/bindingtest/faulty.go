package bindingtest

import (
	"context"
	"iter"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// Faulty is an engine with faults. Fields are set before it is used.
type Faulty struct {
	binding.Engine
	// Before is asked before each step, by the method's name. Its error is the
	// step's, which then does not happen. It may wait, until ctx ends.
	Before func(ctx context.Context, op string) error
	// After is asked after each step that worked: its error is that of an answer
	// that was lost.
	After func(op string) error
}

func faulty[T any](ctx context.Context, f *Faulty, op string, step func() (T, error)) (T, error) {
	var zero T
	if f.Before != nil {
		if err := f.Before(ctx, op); err != nil {
			return zero, err
		}
	}
	v, err := step()
	if err == nil && f.After != nil {
		if err := f.After(op); err != nil {
			return zero, err
		}
	}
	return v, err
}

type none = struct{}

// State implements binding.Engine.
func (f *Faulty) State(ctx context.Context, key binding.Key, rebuild binding.Rebuild) (binding.State, error) {
	return faulty(ctx, f, "State", func() (binding.State, error) { return f.Engine.State(ctx, key, rebuild) })
}

// Bindings implements binding.Engine.
func (f *Faulty) Bindings(ctx context.Context, keys []binding.Key) (map[binding.Key]binding.Binding, error) {
	return faulty(ctx, f, "Bindings", func() (map[binding.Key]binding.Binding, error) { return f.Engine.Bindings(ctx, keys) })
}

// All implements binding.Engine.
func (f *Faulty) All(ctx context.Context, filter binding.Filter) iter.Seq2[binding.Binding, error] {
	return func(yield func(binding.Binding, error) bool) {
		if _, err := faulty(ctx, f, "All", func() (none, error) { return none{}, nil }); err != nil {
			yield(binding.Binding{}, err)
			return
		}
		f.Engine.All(ctx, filter)(yield)
	}
}

// Create implements binding.Engine.
func (f *Faulty) Create(ctx context.Context, b binding.Binding, fence binding.Fence) (bool, error) {
	return faulty(ctx, f, "Create", func() (bool, error) { return f.Engine.Create(ctx, b, fence) })
}

// DeleteIfMatch implements binding.Engine.
func (f *Faulty) DeleteIfMatch(ctx context.Context, key binding.Key, provider, sandbox string, fence binding.Fence) (bool, error) {
	return faulty(ctx, f, "DeleteIfMatch", func() (bool, error) { return f.Engine.DeleteIfMatch(ctx, key, provider, sandbox, fence) })
}

// ReplaceToken implements binding.Engine.
func (f *Faulty) ReplaceToken(ctx context.Context, key binding.Key, provider, sandbox, token string) (bool, error) {
	return faulty(ctx, f, "ReplaceToken", func() (bool, error) { return f.Engine.ReplaceToken(ctx, key, provider, sandbox, token) })
}

// MarkStale implements binding.Engine.
func (f *Faulty) MarkStale(ctx context.Context, tenant, config string) (int, error) {
	return faulty(ctx, f, "MarkStale", func() (int, error) { return f.Engine.MarkStale(ctx, tenant, config) })
}

// Lock implements binding.Engine.
func (f *Faulty) Lock(ctx context.Context, key binding.Key, holder string, lease time.Duration) (fence binding.Fence, busy time.Duration, err error) {
	fence, err = faulty(ctx, f, "Lock", func() (fence binding.Fence, err error) {
		fence, busy, err = f.Engine.Lock(ctx, key, holder, lease)
		return fence, err
	})
	return fence, busy, err
}

// LockRewind implements binding.Engine.
func (f *Faulty) LockRewind(ctx context.Context, key binding.Key, holder string, lease time.Duration) error {
	_, err := faulty(ctx, f, "LockRewind", func() (none, error) { return none{}, f.Engine.LockRewind(ctx, key, holder, lease) })
	return err
}

// BeginTurn implements binding.Engine.
func (f *Faulty) BeginTurn(ctx context.Context, key binding.Key, holder string, lease time.Duration, rebuild binding.Rebuild) (binding.State, error) {
	return faulty(ctx, f, "BeginTurn", func() (binding.State, error) { return f.Engine.BeginTurn(ctx, key, holder, lease, rebuild) })
}

// Renew implements binding.Engine.
func (f *Faulty) Renew(ctx context.Context, key binding.Key, what binding.Lease, holder string, lease time.Duration) (bool, error) {
	return faulty(ctx, f, "Renew", func() (bool, error) { return f.Engine.Renew(ctx, key, what, holder, lease) })
}

// Release implements binding.Engine.
func (f *Faulty) Release(ctx context.Context, key binding.Key, what binding.Lease, holder string) error {
	_, err := faulty(ctx, f, "Release", func() (none, error) { return none{}, f.Engine.Release(ctx, key, what, holder) })
	return err
}

// AddWork implements binding.Engine.
func (f *Faulty) AddWork(ctx context.Context, key binding.Key, w binding.Work, lease time.Duration, limit int) error {
	_, err := faulty(ctx, f, "AddWork", func() (none, error) { return none{}, f.Engine.AddWork(ctx, key, w, lease, limit) })
	return err
}

// RenewWork implements binding.Engine.
func (f *Faulty) RenewWork(ctx context.Context, key binding.Key, id string, lease time.Duration) (bool, error) {
	return faulty(ctx, f, "RenewWork", func() (bool, error) { return f.Engine.RenewWork(ctx, key, id, lease) })
}

// RemoveWork implements binding.Engine.
func (f *Faulty) RemoveWork(ctx context.Context, key binding.Key, id string) error {
	_, err := faulty(ctx, f, "RemoveWork", func() (none, error) { return none{}, f.Engine.RemoveWork(ctx, key, id) })
	return err
}

// Work implements binding.Engine.
func (f *Faulty) Work(ctx context.Context, key binding.Key) ([]binding.Work, error) {
	return faulty(ctx, f, "Work", func() ([]binding.Work, error) { return f.Engine.Work(ctx, key) })
}

// Check implements binding.Engine.
func (f *Faulty) Check(ctx context.Context) (binding.Report, error) {
	return faulty(ctx, f, "Check", func() (binding.Report, error) { return f.Engine.Check(ctx) })
}
