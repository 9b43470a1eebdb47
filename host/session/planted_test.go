package session_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"pgregory.net/rapid"
)

type planted struct {
	engine   func(binding.Engine) binding.Engine
	provider func(op string) error
	exists   bool // nothing exists
}

func TestModelFindsPlantedBugs(t *testing.T) {
	for name, plant := range map[string]planted{
		"nobody is excluded and bindings are replaced": {engine: func(e binding.Engine) binding.Engine { return overwriting{&openLocks{Engine: e}} }},
		"bindings are never deleted":                   {engine: func(e binding.Engine) binding.Engine { return unmatched{e} }},
		"the provider calls the living gone": {provider: func(op string) error {
			if op == "Connect" {
				return account.Gone()
			}
			return nil
		}},
		"no session exists": {exists: true},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 { // what it draws is random, and a round may miss a bug
				if fails(name, func(t rapid.TB) { rapid.Check(t, func(t *rapid.T) { runModel(t, plant) }) }) {
					return
				}
			}
			t.Error("the model did not notice")
		})
	}
}

type openLocks struct {
	binding.Engine
	mu   sync.Mutex
	last binding.Fence
}

func (e *openLocks) Lock(context.Context, binding.Key, string, time.Duration) (binding.Fence, time.Duration, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	return e.last, 0, nil
}

func (e *openLocks) Renew(context.Context, binding.Key, binding.Lease, string, time.Duration) (bool, error) {
	return true, nil
}

func (e *openLocks) Create(ctx context.Context, b binding.Binding, _ binding.Fence) (bool, error) {
	return e.Engine.Create(ctx, b, 0)
}

func (e *openLocks) DeleteIfMatch(ctx context.Context, key binding.Key, provider, sandbox string, _ binding.Fence) (bool, error) {
	return e.Engine.DeleteIfMatch(ctx, key, provider, sandbox, 0)
}

type overwriting struct{ binding.Engine }

func (e overwriting) Create(ctx context.Context, b binding.Binding, f binding.Fence) (bool, error) {
	st, err := e.Engine.State(ctx, b.Key, binding.Keep)
	if err == nil && st.Bound {
		_, err = e.Engine.DeleteIfMatch(ctx, b.Key, st.Binding.Provider, st.Binding.Sandbox, f)
	}
	if err != nil {
		return false, err
	}
	return e.Engine.Create(ctx, b, f)
}

type unmatched struct{ binding.Engine }

func (e unmatched) DeleteIfMatch(context.Context, binding.Key, string, string, binding.Fence) (bool, error) {
	return false, nil
}

func fails(name string, f func(rapid.TB)) bool {
	r := &recorder{name: name}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.Failed()
}

type recorder struct {
	name   string
	mu     sync.Mutex
	failed bool
}

func (*recorder) Helper() {}

func (r *recorder) Name() string { return r.name }

func (*recorder) Log(...any) {}

func (*recorder) Logf(string, ...any) {}

func (*recorder) Skip(...any) { runtime.Goexit() }

func (*recorder) Skipf(string, ...any) { runtime.Goexit() }

func (*recorder) SkipNow() { runtime.Goexit() }

func (r *recorder) Error(...any) { r.Fail() }

func (r *recorder) Errorf(string, ...any) { r.Fail() }

func (r *recorder) Fatal(...any) { r.FailNow() }

func (r *recorder) Fatalf(string, ...any) { r.FailNow() }

func (r *recorder) FailNow() { r.Fail(); runtime.Goexit() }

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
