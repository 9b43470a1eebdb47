package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/caisson-run/caisson/host/session/binding"
)

// Engine is a binding.Engine in Redis. Safe for concurrent use.
type Engine struct {
	client    goredis.UniversalClient
	namespace string
	scripts   scripts
	// now is an argument of every script: empty for the server's own clock. Tests
	// give a time in milliseconds.
	now func() string
}

var _ binding.Engine = (*Engine)(nil)

// NewEngine returns an engine. It connects when it is used first: a server that is
// down now is an error of the steps, until it is back.
func NewEngine(o Options) (*Engine, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	timeout := o.Store.OpTimeout
	if timeout <= 0 {
		timeout = 2 * time.Second
	}
	return &Engine{
		client: o.client(timeout), namespace: o.namespace(), scripts: load(),
		now: func() string { return "" },
	}, nil
}

// New returns a store in Redis. It does not connect yet; see binding.Store.Check.
func New(o Options) (*binding.Store, error) {
	e, err := NewEngine(o)
	if err != nil {
		return nil, err
	}
	s, err := binding.New(e, o.Store)
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	return s, nil
}

// Close implements binding.Engine.
func (e *Engine) Close() error { return e.client.Close() }

func flag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// State implements binding.Engine.
func (e *Engine) State(ctx context.Context, key binding.Key, rebuild binding.Rebuild) (binding.State, error) {
	k := e.keys(key)
	r, err := e.run(ctx, e.scripts.state, []string{k.binding(), k.rewind(), k.turns(), k.work()}, flag(bool(rebuild)))
	if err != nil {
		return binding.State{}, err
	}
	return state(key, r)
}

func state(key binding.Key, r reply) (binding.State, error) {
	st := binding.State{Turns: int(r.int(0)), Work: int(r.int(1)), Spent: r.int(2) == 1, Rewinding: r.int(3) == 1}
	var hash []any
	if len(r) > 4 {
		hash, _ = r[4].([]any)
	}
	var err error
	st.Binding, st.Bound, err = decode(key, hash)
	if err != nil {
		return binding.State{}, err
	}
	return st, nil
}

// Create implements binding.Engine.
func (e *Engine) Create(ctx context.Context, b binding.Binding, fence binding.Fence) (bool, error) {
	k := e.keys(b.Key)
	args := append([]any{uint64(fence), b.Provider, b.Sandbox}, fields(b)...)
	return e.yes(ctx, e.scripts.create, []string{k.binding(), k.lock()}, args...)
}

// DeleteIfMatch implements binding.Engine.
func (e *Engine) DeleteIfMatch(ctx context.Context, key binding.Key, provider, sandbox string, fence binding.Fence) (bool, error) {
	k := e.keys(key)
	return e.yes(ctx, e.scripts.delete, []string{k.binding(), k.lock()}, uint64(fence), provider, sandbox)
}

// ReplaceToken implements binding.Engine.
func (e *Engine) ReplaceToken(ctx context.Context, key binding.Key, provider, sandbox, token string) (bool, error) {
	return e.yes(ctx, e.scripts.token, []string{e.keys(key).binding()}, provider, sandbox, token)
}

// yes runs a script that answers 0 or 1.
func (e *Engine) yes(ctx context.Context, s *goredis.Script, keys []string, args ...any) (bool, error) {
	r, err := e.run(ctx, s, keys, args...)
	if err != nil {
		return false, err
	}
	return r.int(0) == 1, nil
}
