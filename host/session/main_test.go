package session_test

import (
	"context"
	"flag"
	"testing"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/sdk/backend"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A failure prints its seed, which is enough to see it again. What is found is
	// made smaller for a while only.
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "5s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// Capabilities of the two kinds of provider.
var (
	named    = []backend.Capability{backend.CapNames, backend.CapList, backend.CapMetadata, backend.CapFSEnum, backend.CapTTLRefresh}
	nameless = []backend.Capability{backend.CapList, backend.CapMetadata, backend.CapPause, backend.CapFSEnum, backend.CapTTLRefresh}
)

// world is one provider account with replicas over it.
type world struct {
	t       testing.TB
	clock   *account.Clock
	account *account.Account
	engine  binding.Engine
	store   *binding.Store
	exists  existence
}

func newWorld(t testing.TB, caps []backend.Capability) *world {
	w := &world{t: t, clock: account.NewClock()}
	w.account = account.New(w.clock.Now, caps...)
	w.reset()
	return w
}

// reset forgets every binding, as a restart of Redis without persistence does.
func (w *world) reset() {
	w.engine = memory.NewEngine(memory.Options{})
	w.store = w.open(w.engine)
}

func (w *world) open(e binding.Engine) *binding.Store {
	s, err := binding.New(e, binding.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	return s
}

// manager returns a Manager of tenant acme on a replica of its own.
func (w *world) manager(change ...func(*session.ManagerOptions)) *session.Manager {
	w.t.Helper()
	o := session.ManagerOptions{
		Tenant: "acme", Config: "main", User: "alice", Deployment: "test",
		Targets: account.NewReplica(w.t, map[string]*account.Account{"main": w.account}, "main"),
		Store:   w.store, Exists: &w.exists, Now: w.clock.Now,
	}
	for _, f := range change {
		f(&o)
	}
	m, err := session.NewManager(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// only returns the account's single sandbox.
func (w *world) only() backend.Sandbox {
	w.t.Helper()
	live := w.account.Live()
	if len(live) != 1 {
		w.t.Fatalf("%d sandboxes live, want one: %v", len(live), live)
	}
	return live[0]
}

// existence knows every session but those deleted.
type existence struct {
	gone map[string]bool
	err  error
}

func (e *existence) SessionExists(_ context.Context, key binding.Key) (bool, error) {
	return !e.gone[key.Session], e.err
}

var pwd = backend.ExecRequest{Argv: []string{"pwd"}}

func mustExec(t testing.TB, m *session.Manager, name string) {
	t.Helper()
	if _, err := m.Exec(t.Context(), name, pwd); err != nil {
		t.Fatal(err)
	}
}

func bound(t testing.TB, m *session.Manager, name string) string {
	t.Helper()
	id, err := m.Bound(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// eachKind runs a test on both kinds of provider.
func eachKind(t *testing.T, f func(t *testing.T, w *world)) {
	for name, caps := range map[string][]backend.Capability{"named": named, "nameless": nameless} {
		t.Run(name, func(t *testing.T) { f(t, newWorld(t, caps)) })
	}
}
