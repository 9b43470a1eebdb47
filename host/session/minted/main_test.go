package minted

import (
	"testing"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/sdk/backend"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	alice   = session.Owner{Tenant: "acme", User: "alice"}
	mallory = session.Owner{Tenant: "evil", User: "mallory"}
	keyed   = session.Owner{Tenant: "brand", KeyID: "k1"}
)

// deployment is one host's sessions over a default provider with names and a second
// without.
type deployment struct {
	*account.Replica
	providers map[string]*account.Account
	clock     *account.Clock
	engine    *memory.Engine
}

func setup(t *testing.T) (*Sessions, *deployment, *account.Clock) {
	t.Helper()
	c := account.NewClock()
	d := &deployment{
		providers: map[string]*account.Account{
			"main":  account.New(c.Now, backend.CapNames, backend.CapList, backend.CapMetadata),
			"other": account.New(c.Now, backend.CapList, backend.CapMetadata),
		},
		clock:  c,
		engine: memory.NewEngine(memory.Options{}),
	}
	for _, p := range d.providers {
		p.Timeless = true
	}
	d.Replica = account.NewReplica(t, d.providers, "main", "other")
	return d.sessions(t, d.engine, false), d, c
}

// sessions is a replica of the deployment on an engine.
func (d *deployment) sessions(t *testing.T, e binding.Engine, shared bool) *Sessions {
	t.Helper()
	keys, err := identity.NewKeys([]byte("a deployment secret of the tests"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := binding.New(e, binding.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{
		Keys: keys, Targets: d.Replica, Store: store, Shared: shared, Deployment: "test", Now: d.clock.Now, MaxWaiting: 2,
	})
	t.Cleanup(func() {
		if n := len(s.lanes.m); n != 0 {
			t.Errorf("%d lanes are left", n)
		}
		_ = store.Close()
	})
	return s
}

// create makes a session on a config and returns its id.
func create(t *testing.T, s *Sessions, owner session.Owner, config string, o session.CreateOptions) string {
	t.Helper()
	target, err := s.o.Targets.Named(t.Context(), owner.Tenant, config)
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Create(t.Context(), owner, target, o)
	if err != nil {
		target.Release()
		t.Fatal(err)
	}
	x.Release()
	return x.ID
}

func only(t *testing.T, a *account.Account) backend.Sandbox {
	t.Helper()
	live := a.Live()
	if len(live) != 1 {
		t.Fatalf("%d sandboxes, want one", len(live))
	}
	return live[0]
}
