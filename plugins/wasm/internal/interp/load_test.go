package interp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// onDemand is an interpreter that loads things when they are needed.
type onDemand struct {
	interpreter
	loaded  chan struct{}
	closed  bool
	started int
}

func (o *onDemand) Prepare(ctx context.Context, _ string) error {
	select {
	case <-o.loaded:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *onDemand) MinMemoryBytes() int64 { return 0 }

func (o *onDemand) Run(context.Context, *guest.Run) (guest.Result, error) {
	o.started++
	return guest.Result{}, nil
}

func (o *onDemand) Close(context.Context) error {
	o.closed = true
	return nil
}

// Whoever waits for an interpreter that is being compiled, or loads what it needs,
// hears of it after a while, and others go on waiting for the same attempt.
func TestPrepareIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(Config{Packs: packs.Locate(t.TempDir()), PrepareWait: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		l := e.loads[packs.PHP]
		l.building = make(chan struct{}) // an attempt is under way
		ctx := context.Background()
		begin := time.Now()
		if err := e.Prepare(ctx, "php"); !errors.Is(err, ErrPreparing) || time.Since(begin) != 5*time.Second {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		canceled, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := e.Prepare(canceled, "php"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller without time: %v", err)
		}
		in := &onDemand{loaded: make(chan struct{})}
		got := make(chan error)
		go func() { got <- e.Prepare(ctx, "php") }()
		synctest.Wait()
		l.mu.Lock()
		l.ready = in
		close(l.building)
		l.building = nil
		l.mu.Unlock()
		if err := <-got; !errors.Is(err, ErrPreparing) {
			t.Errorf("while the interpreter loads: %v", err)
		}
		close(in.loaded)
		if err := e.Prepare(ctx, "php"); err != nil {
			t.Errorf("when all is there: %v", err)
		}
		if err := e.Close(ctx); err != nil || !in.closed {
			t.Errorf("close: %v, %t", err, in.closed)
		}
		if err := e.Prepare(ctx, "php"); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	})
}

// A failure is not kept: the pack may have come meanwhile.
func TestFailedAttemptIsTriedAgain(t *testing.T) {
	e, err := New(Config{Packs: packs.Locate(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Prepare(t.Context(), "php"); !errors.Is(err, ErrMissingPack) {
			t.Errorf("got %v", err)
		}
	}
	if e.loads[packs.PHP].building != nil {
		t.Error("an attempt is left over")
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// What is large is listed as such, so that nobody loads it ahead.
func TestOnDemandLanguages(t *testing.T) {
	for _, l := range shared.Languages() {
		if want := l.ID == "c" || l.ID == "cpp"; l.OnDemand != want {
			t.Errorf("%s: on demand %t", l.ID, l.OnDemand)
		}
	}
}
