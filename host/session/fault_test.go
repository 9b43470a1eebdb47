package session_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/sdk/backend"
)

func key(name string) binding.Key { return binding.Key{Tenant: "acme", Session: name} }

// A caller who goes away while the sandbox is made leaves nothing, whether the
// provider had made it or not.
func TestCancelledCreateLeaksNothing(t *testing.T) {
	for name, hook := range map[string]func(a *account.Account, f func(context.Context, string, string) error){
		"before": func(a *account.Account, f func(context.Context, string, string) error) { a.Before = f },
		"after":  func(a *account.Account, f func(context.Context, string, string) error) { a.After = f },
	} {
		eachKind(t, func(t *testing.T, w *world) {
			ctx, cancel := context.WithCancel(t.Context())
			hook(w.account, func(ctx context.Context, op, _ string) error {
				if op == "Create" {
					cancel()
				}
				return ctx.Err()
			})
			m := w.manager()
			if _, err := m.Exec(ctx, "s", pwd); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: Exec = %v", name, err)
			}
			w.account.Before, w.account.After = nil, nil
			if live := w.account.Live(); len(live) != 0 {
				t.Errorf("%s: left behind: %v", name, live)
			}
			mustExec(t, m, "s")
			w.only()
		})
	}
}

func TestSessionDeletedDuringCreate(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		w.account.After = func(_ context.Context, op, _ string) error {
			if op == "Create" {
				w.exists.gone = map[string]bool{"s": true}
			}
			return nil
		}
		m := w.manager()
		if _, err := m.Exec(t.Context(), "s", pwd); !errors.Is(err, session.ErrDeleted) {
			t.Errorf("Exec = %v, want ErrDeleted", err)
		}
		if len(w.account.Made()) != 1 || len(w.account.Live()) != 0 {
			t.Errorf("made %d, live %d", len(w.account.Made()), len(w.account.Live()))
		}
		// And from then on nothing is even tried.
		if _, err := m.Exec(t.Context(), "s", pwd); !errors.Is(err, session.ErrDeleted) || len(w.account.Made()) != 1 {
			t.Errorf("Exec of a deleted session = %v", err)
		}
		w.exists = existence{err: errors.New("the database is down")}
		if _, err := m.Exec(t.Context(), "s", pwd); err == nil || len(w.account.Made()) != 1 {
			t.Errorf("Exec without knowing = %v", err)
		}
	})
}

// A store that cannot be asked makes nothing, deletes nothing, and says so.
func TestStoreDownFailsClosed(t *testing.T) {
	for _, op := range []string{"State", "Lock", "Create", "Renew", "DeleteIfMatch"} {
		w := newWorld(t, nameless)
		mustExec(t, w.manager(), "old")
		old := w.only()
		down := true
		w.store = w.open(&bindingtest.Faulty{Engine: w.engine, Before: func(_ context.Context, o string) error {
			if down && o == op {
				return &binding.Error{Reason: binding.Down, Err: errors.New("connection refused")}
			}
			return nil
		}})
		m := w.manager()
		_, err := m.Exec(t.Context(), "new", pwd)
		if op != "DeleteIfMatch" && !errors.Is(err, binding.ErrUnavailable) {
			t.Errorf("%s: Exec = %v, want unavailable", op, err)
		}
		if err := m.Destroy(t.Context(), "old"); !errors.Is(err, binding.ErrUnavailable) && op != "Create" {
			t.Errorf("%s: Destroy = %v, want unavailable", op, err)
		}
		if deleted := slices.Contains(w.account.Deleted(), old.ID); deleted && op != "DeleteIfMatch" && op != "Create" {
			t.Errorf("%s: the sandbox was deleted although nobody could agree to it", op)
		}
		down = false
		mustExec(t, m, "new")
		var mine []backend.Sandbox
		for _, sb := range w.account.Live() {
			if sb.Metadata.Labels[session.LabelSession] == "new" {
				mine = append(mine, sb)
			}
		}
		if len(mine) != 1 || bound(t, m, "new") != mine[0].ID {
			t.Errorf("%s: afterwards there are %d sandboxes: %v", op, len(mine), mine)
		}
		if err := m.Destroy(t.Context(), "old"); err != nil {
			t.Errorf("%s: Destroy afterwards = %v", op, err)
		}
	}
}

// A binding that was written although the answer was lost is the session's.
func TestLostAnswerOfTheStore(t *testing.T) {
	w := newWorld(t, nameless)
	lost := true
	w.store = w.open(&bindingtest.Faulty{Engine: w.engine, After: func(op string) error {
		if lost && op == "Create" {
			lost = false
			return &binding.Error{Reason: binding.Slow, Err: errors.New("no answer")}
		}
		return nil
	}})
	m := w.manager()
	if _, err := m.Exec(t.Context(), "s", pwd); !errors.Is(err, binding.ErrUnavailable) {
		t.Errorf("Exec = %v", err)
	}
	mustExec(t, m, "s")
	if w.only().ID != bound(t, m, "s") {
		t.Error("another sandbox is bound")
	}
}

// A replica that was stopped for so long that another one took over must not
// delete what it was about to delete.
func TestLostLockStopsDestructiveWork(t *testing.T) {
	w := newWorld(t, nameless)
	mustExec(t, w.manager(), "s")
	w.store = w.open(stolenLock{w.engine})
	m := w.manager()
	err := m.Destroy(t.Context(), "s")
	if !errors.Is(err, binding.ErrOwnershipLost) {
		t.Errorf("Destroy = %v, want ownership lost", err)
	}
	if len(w.account.Deleted()) != 0 {
		t.Error("the sandbox was deleted without the lock")
	}
	w.only()
}

// stolenLock is a store in which somebody else has the lock by the time it is needed.
type stolenLock struct{ binding.Engine }

func (stolenLock) Renew(context.Context, binding.Key, binding.Lease, string, time.Duration) (bool, error) {
	return false, nil
}

// The one that lost the race to bind deletes its own sandbox, and only when it
// knows who won.
func TestLosingTheRaceToBind(t *testing.T) {
	w := newWorld(t, nameless)
	m := w.manager()
	// Somebody who ignores the lock binds another sandbox while ours is made.
	w.account.After = func(ctx context.Context, op, _ string) error {
		if op != "Create" {
			return nil
		}
		w.account.After = nil
		other := w.only()
		other.ID = "winner"
		w.account.Put(other)
		_, err := w.engine.Create(ctx, binding.Binding{
			Key: key("s"), Provider: "fake", Config: "main", Sandbox: "winner", Created: w.clock.Now(),
		}, 0)
		return err
	}
	mustExec(t, m, "s")
	if w.only().ID != "winner" || bound(t, m, "s") != "winner" {
		t.Errorf("live %v, bound %q", w.account.Live(), bound(t, m, "s"))
	}

	w = newWorld(t, nameless)
	unknown := false
	w.store = w.open(&bindingtest.Faulty{Engine: w.engine, Before: func(_ context.Context, op string) error {
		if unknown && op == "State" {
			return &binding.Error{Reason: binding.Down, Err: errors.New("gone")}
		}
		return nil
	}})
	m = w.manager()
	w.account.After = func(ctx context.Context, op, _ string) error {
		if op != "Create" {
			return nil
		}
		unknown = true
		_, err := w.engine.Create(ctx, binding.Binding{
			Key: key("s"), Provider: "fake", Config: "main", Sandbox: "winner", Created: w.clock.Now(),
		}, 0)
		return err
	}
	if _, err := m.Exec(t.Context(), "s", pwd); !errors.Is(err, binding.ErrUnavailable) {
		t.Errorf("Exec = %v", err)
	}
	if len(w.account.Deleted()) != 0 {
		t.Error("a sandbox was deleted although the winner is not known")
	}
}

func TestDestroy(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		var forgotten []string
		m := w.manager(func(o *session.ManagerOptions) {
			o.Forget = func(_ context.Context, k binding.Key) { forgotten = append(forgotten, k.Session) }
		})
		if err := m.Destroy(t.Context(), "s"); err != nil {
			t.Errorf("Destroy of nothing = %v", err)
		}
		mustExec(t, m, "s")
		sb := w.only()
		// The provider comes first: a crash in between leaves a binding, never an orphan.
		w.account.Before = func(_ context.Context, op, _ string) error {
			if op == "Delete" {
				return account.Down()
			}
			return nil
		}
		if err := m.Destroy(t.Context(), "s"); backend.KindOf(err) != backend.KindUnavailable {
			t.Errorf("Destroy with the provider down = %v", err)
		}
		if bound(t, m, "s") != sb.ID {
			t.Error("the binding went first")
		}
		w.account.Before = nil
		for range 2 {
			if err := m.Destroy(t.Context(), "s"); err != nil {
				t.Error(err)
			}
		}
		if _, err := m.Bound(t.Context(), "s"); !errors.Is(err, session.ErrNoSandbox) || len(w.account.Live()) != 0 {
			t.Errorf("Bound = %v, live = %v", err, w.account.Live())
		}
		// A sandbox that only the provider knows is the session's as well.
		mustExec(t, m, "s")
		w.reset()
		if err := w.manager().Destroy(t.Context(), "s"); err != nil || len(w.account.Live()) != 0 {
			t.Errorf("Destroy without a binding = %v, live = %v", err, w.account.Live())
		}
		if len(forgotten) != 3 {
			t.Errorf("forgotten %v", forgotten)
		}
	})
}

// bootstrapper is scripted.
type bootstrapper struct {
	start    session.Start
	override error
	after    func(backend.Sandbox) error
	failed   []session.Start
}

func (b *bootstrapper) Override(context.Context, binding.Key) (session.Start, error) {
	return b.start, b.override
}

func (b *bootstrapper) AfterCreate(_ context.Context, _ binding.Key, _ session.Target, sb backend.Sandbox) error {
	if b.after == nil {
		return nil
	}
	return b.after(sb)
}

func (b *bootstrapper) OnCreateFailed(_ context.Context, _ binding.Key, s session.Start, _ error) {
	b.failed = append(b.failed, s)
}

func TestBootstrapper(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		b := &bootstrapper{override: errors.New("cannot tell")}
		m := w.manager(func(o *session.ManagerOptions) {
			o.Bootstrap, o.Sandbox.Env = b, map[string]string{"A": "1"}
		})
		if _, err := m.Exec(t.Context(), "s", pwd); !errors.Is(err, b.override) || len(w.account.Made()) != 0 {
			t.Errorf("not to know what to start from: %v, %d made", err, len(w.account.Made()))
		}

		*b = bootstrapper{start: session.Start{Snapshot: "dead"}}
		w.account.Before = func(_ context.Context, op, _ string) error {
			if op == "Create" {
				return &backend.Error{Kind: backend.KindNotFound, Subject: backend.SubjectSnapshot}
			}
			return nil
		}
		if _, err := m.Exec(t.Context(), "s", pwd); err == nil || !slices.Equal(b.failed, []session.Start{{Snapshot: "dead"}}) {
			t.Errorf("a dead snapshot: %v, told %v", err, b.failed)
		}
		w.account.Before = nil

		*b = bootstrapper{after: func(backend.Sandbox) error { return errors.New("half a fork") }}
		if _, err := m.Exec(t.Context(), "s", pwd); err == nil {
			t.Error("half a fork was used")
		}
		if _, err := m.Bound(t.Context(), "s"); !errors.Is(err, session.ErrNoSandbox) || len(w.account.Live()) != 0 {
			t.Errorf("half a fork is left: %v, %v", err, w.account.Live())
		}
		// Nor is it used when it cannot be deleted now.
		w.account.Before = func(_ context.Context, op, _ string) error {
			if op == "Delete" {
				return account.Down()
			}
			return nil
		}
		if _, err := m.Exec(t.Context(), "s", pwd); err == nil {
			t.Error("half a fork was used")
		}
		half := w.only().ID
		if _, err := m.Exec(t.Context(), "s", pwd); err == nil {
			t.Error("half a fork was used by the next call")
		}
		w.account.Before = nil
		created := w.only().Created
		w.clock.Advance(1)
		*b = bootstrapper{}
		mustExec(t, m, "s")
		if sb := w.only(); sb.ID == half && sb.Created.Equal(created) {
			t.Error("half a fork was kept")
		}
		mustExec(t, m, "s")
		if n := len(w.account.Live()); n != 1 {
			t.Errorf("%d live", n)
		}
	})
}

// A sandbox that was found by its metadata and cannot be reached is still there:
// nothing is made beside it.
func TestDoubtWhileRecoveringMakesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		mustExec(t, w.manager(), "s")
		first := w.only().ID
		w.reset()
		m := w.manager()
		for _, op := range []string{"Get", "List", "Connect"} {
			w.account.Before = func(_ context.Context, o, _ string) error {
				if o == op {
					return account.Down()
				}
				return nil
			}
			asked := op == "Connect" || (op == "Get") == slices.Contains(w.account.Caps, backend.CapNames)
			if _, err := m.Exec(t.Context(), "s", pwd); asked != (backend.KindOf(err) == backend.KindUnavailable) {
				t.Errorf("%s down: Exec = %v", op, err)
			}
			w.account.Before = nil
			if w.only().ID != first {
				t.Fatalf("%s down: the sandbox was replaced", op)
			}
			w.reset()
			m = w.manager()
		}
	})
}

// A store that is emptied while the sandbox is made takes the lock away with it. That
// costs the caller nothing: what was made is found, bound and used.
func TestOwnershipLostDuringCreateIsLookedAtAgain(t *testing.T) {
	eachKind(t, func(t *testing.T, w *world) {
		engine := &bindingtest.Faulty{Engine: w.engine}
		w.store = w.open(engine)
		emptied := 0
		w.account.After = func(_ context.Context, op, _ string) error {
			if op == "Create" {
				emptied++
				engine.Engine = memory.NewEngine(memory.Options{})
			}
			return nil
		}
		m := w.manager()
		mustExec(t, m, "s")
		sb := w.only()
		if emptied != 1 || bound(t, m, "s") != sb.ID || len(w.account.Made()) != 1 {
			t.Errorf("after %d losses %v were made and %q is bound", emptied, w.account.Made(), bound(t, m, "s"))
		}
	})
}
