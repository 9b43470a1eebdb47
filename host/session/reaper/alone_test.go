package reaper

import (
	"context"
	"errors"
	"testing"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/memory"
)

func TestAlone(t *testing.T) {
	engine := memory.NewEngine(memory.Options{})
	open := func(e binding.Engine) *binding.Store {
		s, err := binding.New(e, binding.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	a, b := open(engine), open(engine)
	failed := errors.New("failed")
	ran, err := Alone(t.Context(), a, "main", func(ctx context.Context) error {
		if ran, err := Alone(ctx, b, "main", func(context.Context) error { t.Error("two are at it"); return nil }); ran || err != nil {
			t.Errorf("the second: %v, %v", ran, err)
		}
		other := false
		if ran, err := Alone(ctx, b, "other", func(context.Context) error { other = true; return nil }); !ran || err != nil || !other {
			t.Errorf("other work: %v, %v", ran, err)
		}
		return failed
	})
	if !ran || !errors.Is(err, failed) {
		t.Errorf("the first: %v, %v", ran, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if ran, err = Alone(ctx, b, "main", func(inner context.Context) error { cancel(); <-inner.Done(); return inner.Err() }); !ran || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled at work: %v, %v", ran, err)
	}
	if ran, err = Alone(ctx, b, "main", func(context.Context) error { return nil }); ran || err == nil {
		t.Errorf("cancelled before: %v, %v", ran, err)
	}
	down := open(&bindingtest.Faulty{Engine: engine, Before: func(context.Context, string) error {
		return &binding.Error{Reason: binding.Down, Err: failed}
	}})
	if ran, err = Alone(t.Context(), down, "main", func(context.Context) error { return nil }); ran || !errors.Is(err, binding.ErrUnavailable) {
		t.Errorf("store down: %v, %v", ran, err)
	}
}
