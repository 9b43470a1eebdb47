package reaper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/sdk/backend"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an account with a Manager and a Reaper over it.
type world struct {
	t       *testing.T
	clock   *account.Clock
	account *account.Account
	targets *account.Replica
	engine  *memory.Engine
	store   *binding.Store
	gone    map[string]bool
	unknown error
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, clock: account.NewClock(), gone: make(map[string]bool)}
	w.account = account.New(w.clock.Now, backend.CapList, backend.CapMetadata)
	w.targets = account.NewReplica(t, map[string]*account.Account{"main": w.account}, "main")
	w.empty()
	return w
}

// empty forgets all bindings.
func (w *world) empty() { w.engine = memory.NewEngine(memory.Options{}); w.use(w.engine) }

func (w *world) use(e binding.Engine) {
	s, err := binding.New(e, binding.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	w.store = s
}

func (w *world) SessionExists(_ context.Context, key binding.Key) (bool, error) {
	return !w.gone[key.Session], w.unknown
}

func (w *world) manager() *session.Manager {
	m, err := session.NewManager(session.ManagerOptions{
		Tenant: "acme", Config: "main", Targets: w.targets, Store: w.store, Deployment: "test", Exists: w, Now: w.clock.Now,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) exec(name string) {
	w.t.Helper()
	if _, err := w.manager().Exec(w.t.Context(), name, backend.ExecRequest{Argv: []string{"x"}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) sweep() (Report, error) {
	return New(Options{Targets: w.targets, Store: w.store, Deployment: "test", Exists: w, Now: w.clock.Now}).Sweep(w.t.Context())
}

func (w *world) want(want Report) {
	w.t.Helper()
	if r, err := w.sweep(); err != nil || r != want {
		w.t.Errorf("Sweep = %+v, %v; want %+v", r, err, want)
	}
}

func (w *world) orphan(id string, change func(*backend.Sandbox)) {
	sb := w.account.Live()[0]
	sb.ID = id
	if change != nil {
		change(&sb)
	}
	w.account.Put(sb)
}

func TestOrphansGoAndBoundOnesStay(t *testing.T) {
	w := newWorld(t)
	w.exec("s")
	w.orphan("duplicate", nil)
	w.orphan("paused", func(sb *backend.Sandbox) { sb.State = backend.StatePaused })
	w.want(Report{Seen: 3, Bound: 1, Protected: 2}) // new ones are protected
	w.clock.Advance(time.Hour)
	w.want(Report{Seen: 3, Bound: 1, Reaped: 2})
	w.want(Report{Seen: 1, Bound: 1})
}

func TestSandboxesOfUnknownAgeAreProtected(t *testing.T) {
	w := newWorld(t)
	w.exec("s")
	w.orphan("timeless", func(sb *backend.Sandbox) { sb.Created = time.Time{} })
	w.clock.Advance(1000 * time.Hour)
	w.want(Report{Seen: 2, Bound: 1, Protected: 1})
	deliberate := New(Options{Targets: w.targets, Store: w.store, Deployment: "test", Exists: w, Now: w.clock.Now, Grace: -1})
	if r, err := deliberate.Sweep(t.Context()); err != nil || r.Reaped != 1 {
		t.Errorf("without grace: %+v, %v", r, err)
	}
}

func TestForeignSandboxesAreNoneOfOurs(t *testing.T) {
	w := newWorld(t)
	w.exec("s")
	w.account.Careless = true
	w.orphan("deployment", func(sb *backend.Sandbox) { sb.Metadata.Deployment = "other" })
	w.orphan("config", func(sb *backend.Sandbox) { sb.Config = "other" })
	w.orphan("minted", func(sb *backend.Sandbox) { sb.Metadata.Labels = nil })
	w.orphan("name", func(sb *backend.Sandbox) { sb.Metadata.Session = "m_other" })
	w.orphan("tenant", func(sb *backend.Sandbox) { sb.Metadata.Tenant = "evil" })
	w.clock.Advance(time.Hour)
	w.want(Report{Seen: 1, Bound: 1})
	if len(w.account.Deleted()) != 0 {
		t.Error("somebody else's sandbox was deleted")
	}
}

// A store that was emptied costs nobody a sandbox: what a session still wants is
// bound again, the liveliest of several, and only what nobody wants goes, each after
// its grace.
func TestEmptiedStore(t *testing.T) {
	w := newWorld(t)
	w.exec("kept")
	w.exec("deleted")
	first := w.account.Live()[0]
	for name, age := range map[string]time.Duration{"younger": -time.Second, "older": time.Hour} {
		w.orphan(name, func(sb *backend.Sandbox) {
			sb.Created = first.Created.Add(-age)
			sb.LastActive = first.LastActive.Add(-time.Minute)
		})
	}
	w.empty()
	w.gone["deleted"] = true
	w.clock.Advance(time.Hour)
	w.want(Report{Seen: 4, Adopted: 1, Reaped: 1, Protected: 2})
	w.want(Report{Seen: 3, Bound: 1, Protected: 2})
	if id, err := w.manager().Bound(t.Context(), "kept"); err != nil || id != first.ID {
		t.Errorf("kept is bound to %q, %v", id, err)
	}
	w.clock.Advance(DefaultGrace)
	w.want(Report{Seen: 3, Bound: 1, Reaped: 2})
}

// A sandbox that was worked in a moment ago is left alone, whatever its age.
func TestActivityProtects(t *testing.T) {
	w := newWorld(t)
	w.exec("s")
	w.orphan("busy", nil)
	w.clock.Advance(time.Hour)
	w.account.Change("busy", func(sb *backend.Sandbox) { sb.LastActive = w.clock.Now() })
	w.want(Report{Seen: 2, Bound: 1, Protected: 1})
	w.clock.Advance(DefaultGrace)
	w.want(Report{Seen: 2, Bound: 1, Reaped: 1})
}

func TestNotToKnowProtects(t *testing.T) {
	w := newWorld(t)
	w.exec("s")
	w.empty()
	w.clock.Advance(time.Hour)
	w.unknown = errors.New("the database is down")
	if r, err := w.sweep(); !errors.Is(err, w.unknown) || r.Reaped != 0 || r.Protected != 1 || r.Failed != 1 {
		t.Errorf("Sweep = %+v, %v", r, err)
	}
	w.unknown = nil
	down := &binding.Error{Reason: binding.Down, Err: errors.New("refused")}
	for _, op := range []string{"Bindings", "State", "Lock", "Renew"} {
		w.gone["s"] = true
		w.use(&bindingtest.Faulty{Engine: memory.NewEngine(memory.Options{}), Before: func(_ context.Context, o string) error {
			if o == op {
				return down
			}
			return nil
		}})
		if r, err := w.sweep(); !errors.Is(err, binding.ErrUnavailable) || r.Reaped != 0 || r.Failed == 0 || len(w.account.Deleted()) != 0 {
			t.Errorf("%s down: Sweep = %+v, %v", op, r, err)
		}
	}
}

// The binding is looked at again under the lock, right before the deletion: a
// snapshot of bindings is seconds old.
func TestCreateBetweenListingAndDeletion(t *testing.T) {
	w := newWorld(t)
	w.exec("s")
	sb := w.account.Live()[0]
	w.empty()
	w.gone["s"] = true
	w.clock.Advance(time.Hour)
	w.use(&bindingtest.Faulty{Engine: w.engine, After: func(op string) error {
		if op == "Bindings" {
			_, err := w.engine.Create(t.Context(), binding.Binding{
				Key: binding.Key{Tenant: "acme", Session: "s"}, Provider: "fake", Config: "main", Sandbox: sb.ID, Created: w.clock.Now(),
			}, 0)
			return err
		}
		return nil
	}})
	w.want(Report{Seen: 1, Bound: 1})
	if len(w.account.Live()) != 1 {
		t.Error("a sandbox was deleted that was bound meanwhile")
	}
}

func TestOneFailureNeverStopsTheSweep(t *testing.T) {
	w := newWorld(t)
	w.exec("s")
	for _, id := range []string{"o1", "o2", "o3"} {
		w.orphan(id, nil)
	}
	w.clock.Advance(time.Hour)
	w.account.Before = func(_ context.Context, op, id string) error {
		if op == "Delete" && id == "o2" {
			return account.Down()
		}
		return nil
	}
	w.targets.Order = []string{"gone", "main"} // a config that cannot be asked
	r, err := w.sweep()
	if r.Reaped != 2 || r.Failed != 2 || err == nil || !errors.Is(err, session.ErrConfigNotFound) {
		t.Errorf("Sweep = %+v, %v", r, err)
	}
	w.account.Before = nil
	w.targets.Order = []string{"main"}
	w.want(Report{Seen: 2, Bound: 1, Reaped: 1})
}

func TestBindingsToTheGoneGo(t *testing.T) {
	w := newWorld(t)
	w.exec("s")
	w.exec("doubt")
	for _, sb := range w.account.Live() {
		if sb.Metadata.Labels[session.LabelSession] == "s" {
			w.account.Vanish(sb.ID)
		}
	}
	w.want(Report{Seen: 1, Bound: 1, Unbound: 1})
	if _, err := w.manager().Bound(t.Context(), "s"); !errors.Is(err, session.ErrNoSandbox) {
		t.Errorf("Bound = %v", err)
	}
	// A listing that lags behind, or a provider that is down, proves nothing.
	id := w.account.Live()[0].ID
	w.account.Vanish(id)
	w.account.Before = func(_ context.Context, op, _ string) error {
		if op == "Get" {
			return account.Down()
		}
		return nil
	}
	if r, err := w.sweep(); err == nil || r.Unbound != 0 || r.Failed != 1 {
		t.Errorf("Sweep = %+v, %v", r, err)
	}
}

// Sandboxes for one run are left to their run, and never adopted afterwards.
func TestSandboxesForOneRun(t *testing.T) {
	w := newWorld(t)
	w.exec("once-x")
	w.orphan("once", func(sb *backend.Sandbox) {
		sb.Metadata.Labels = map[string]string{
			session.LabelSession: "once-x", session.LabelUntil: w.clock.Now().Add(2 * time.Hour).Format(time.RFC3339),
		}
	})
	w.account.Vanish(w.account.Live()[0].ID)
	w.empty()
	w.clock.Advance(time.Hour)
	w.want(Report{Seen: 1, Protected: 1})
	w.clock.Advance(2 * time.Hour)
	w.want(Report{Seen: 1, Reaped: 1})
}

func TestLostLockStopsTheDeletion(t *testing.T) {
	w := newWorld(t)
	w.exec("s")
	w.orphan("o", nil)
	w.clock.Advance(time.Hour)
	w.use(stolen{w.engine})
	if r, err := w.sweep(); !errors.Is(err, binding.ErrOwnershipLost) || r.Reaped != 0 || len(w.account.Deleted()) != 0 {
		t.Errorf("Sweep = %+v, %v", r, err)
	}
}

type stolen struct{ binding.Engine }

func (stolen) Renew(context.Context, binding.Key, binding.Lease, string, time.Duration) (bool, error) {
	return false, nil
}

// Where there is nothing to reconcile, the provider is not listed a second time.
func TestNothingToReconcile(t *testing.T) {
	w := newWorld(t)
	r := New(Options{Targets: w.targets, Store: w.store, Deployment: "test", Exists: w, Now: w.clock.Now})
	sweep := func(managed bool) int {
		before := w.account.Count("List")
		if _, err := r.SweepConfig(t.Context(), "main", managed); err != nil {
			t.Error(err)
		}
		return w.account.Count("List") - before
	}
	if n := sweep(false); n != 0 {
		t.Errorf("listed %d times for nothing", n)
	}
	if n := sweep(true); n != 1 {
		t.Errorf("listed %d times", n)
	}
	w.exec("s")
	if n := sweep(false); n != 1 { // there is a binding
		t.Errorf("listed %d times although something is bound", n)
	}
}
