package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
)

func TestStaleSandboxesAreReplacedOncePerTurn(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		m := w.manager()
		made := func() int { return len(w.account.Made()) }
		mark := func(want int) {
			t.Helper()
			w.clock.Advance(time.Second)
			if n, err := m.MarkStale(t.Context()); err != nil || n != want {
				t.Errorf("MarkStale = %d, %v; want %d", n, err, want)
			}
		}
		mustExec(t, m, "s")
		mark(1)
		mark(0) // marked already
		w.only()
		mustExec(t, m, "s")
		if made() != 2 {
			t.Fatalf("%d made, want the stale one replaced", made())
		}
		// In a turn: the first use may, later ones may not, whatever happens meanwhile.
		end, err := m.BeginTurn(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, m, "s")
		mark(1)
		mustExec(t, m, "s")
		if made() != 2 {
			t.Error("a turn lost its sandbox half-way")
		}
		end()
		end()
		if end, err = m.BeginTurn(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		mustExec(t, m, "s")
		if made() != 3 {
			t.Error("the next turn's first use did not replace it")
		}
		end()
		// Never under live background work.
		mark(1)
		work := binding.Work{ID: "job", Kind: "job"}
		if err := w.store.AddWork(t.Context(), key("s"), work, time.Minute, 1); err != nil {
			t.Fatal(err)
		}
		mustExec(t, m, "s")
		if made() != 3 {
			t.Error("a sandbox was replaced under background work")
		}
		if err := w.store.RemoveWork(t.Context(), key("s"), "job"); err != nil {
			t.Fatal(err)
		}
		mustExec(t, m, "s")
		if made() != 4 {
			t.Error("it was not replaced after the work")
		}
		w.only()
	})
}

func TestRewind(t *testing.T) {
	w := newWorld(t, nameless)
	m, other := w.manager(), w.manager()
	mustExec(t, m, "s")
	end, err := m.BeginTurn(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.LockRewind(t.Context(), "s"); !errors.Is(err, binding.ErrTurnActive) {
		t.Errorf("LockRewind in a turn = %v", err)
	}
	end()
	ctx, unlock, err := m.LockRewind(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"Exec":       func() error { _, err := other.Exec(t.Context(), "s", pwd); return err },
		"BeginTurn":  func() error { _, err := other.BeginTurn(t.Context(), "s"); return err },
		"Destroy":    func() error { return other.Destroy(t.Context(), "s") },
		"LockRewind": func() error { _, _, err := other.LockRewind(t.Context(), "s"); return err },
	} {
		if err := call(); !errors.Is(err, binding.ErrRewindLocked) {
			t.Errorf("%s during a rewind = %v", name, err)
		}
	}
	if _, err := m.Exec(ctx, "s", pwd); err != nil {
		t.Errorf("the rewind itself: %v", err)
	}
	unlock()
	if ctx.Err() == nil {
		t.Error("the context of the rewind outlives it")
	}
	mustExec(t, other, "s")
}

func TestOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		m := w.manager()
		if res, err := m.Once(t.Context(), program, started{}); err != nil || res.Stop != backend.StopExit {
			t.Errorf("Once = %+v, %v", res, err)
		}
		// A caller who goes away leaves nothing, wherever that happens.
		for _, op := range []string{"Create", "Run"} {
			for _, late := range []bool{false, true} {
				ctx, cancel := context.WithCancel(t.Context())
				hook := func(ctx context.Context, o, _ string) error {
					if o == op {
						cancel()
					}
					return ctx.Err()
				}
				if late {
					w.account.After = hook
				} else {
					w.account.Before = hook
				}
				if _, err := m.Once(ctx, program, started{}); !errors.Is(err, context.Canceled) {
					t.Errorf("Once cancelled in %s = %v", op, err)
				}
				w.account.Before, w.account.After = nil, nil
				if live := w.account.Live(); len(live) != 0 {
					t.Errorf("cancelled in %s: left behind %v", op, live)
				}
			}
		}
		bad := program
		bad.Steps = nil
		made := len(w.account.Made())
		if _, err := m.Once(t.Context(), bad, started{}); backend.KindOf(err) != backend.KindInvalidRequest || len(w.account.Made()) != made {
			t.Errorf("Once of a bad spec = %v", err)
		}
		if n, err := w.store.Bindings(t.Context(), nil); err != nil || len(n) != 0 {
			t.Errorf("bindings are left: %v, %v", n, err)
		}
	})
}
