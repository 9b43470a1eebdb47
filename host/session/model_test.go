package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/internal/account"
	"github.com/caisson-run/caisson/host/session/reaper"
	"github.com/caisson-run/caisson/sdk/backend"
	"pgregory.net/rapid"
)

// model is two replicas over one provider account and one binding store, with
// everything that can go wrong in any order, and what must hold all the same.
type model struct {
	t       *rapid.T
	clock   *account.Clock
	account *account.Account
	views   []*account.Account
	targets []*account.Replica
	engine  binding.Engine
	stores  []*binding.Store
	plant   planted

	mu sync.Mutex
	// faults are those of the steps to come: the n-th step of a provider or the store
	// fails, before or after it took place.
	faults []fault
	// used is the sandbox in which a session last did something.
	used map[binding.Key]string
	// doomed are sessions that somebody means to replace or destroy.
	doomed map[binding.Key]bool
	gone   map[binding.Key]bool
	broken []string
	// planted counts second sandboxes.
	planted int
}

// planted is a bug for the model to find.
type fault struct {
	late bool
	err  error
}

var sessionsOfModel = []binding.Key{{Tenant: "a", Session: "s"}, {Tenant: "a", Session: "t"}, {Tenant: "b", Session: "s"}}

func newModel(t *rapid.T, plant planted) *model {
	m := &model{
		t: t, clock: account.NewClock(), plant: plant,
		used: make(map[binding.Key]string), doomed: make(map[binding.Key]bool), gone: make(map[binding.Key]bool),
	}
	caps := nameless
	if rapid.Bool().Draw(t, "named") {
		caps = named
	}
	m.account = account.New(m.clock.Now, caps...)
	m.account.Careless = rapid.Bool().Draw(t, "careless")
	m.account.Silent = rapid.Bool().Draw(t, "silent")
	for range 2 {
		v := m.account.View()
		v.Before = func(_ context.Context, op, id string) error {
			m.watch(op, id)
			if op == "Create" {
				time.Sleep(50 * time.Microsecond) // for others to come in between
			}
			if plant.provider != nil {
				if err := plant.provider(op); err != nil {
					return err
				}
			}
			return m.fault(false)
		}
		v.After = func(context.Context, string, string) error { return m.fault(true) }
		m.views = append(m.views, v)
		m.targets = append(m.targets, &account.Replica{Accounts: map[string]*account.Account{"main": v}, Order: []string{"main"}})
	}
	m.empty()
	// What others have in the same account.
	for i, change := range []func(*backend.Metadata){
		func(md *backend.Metadata) { md.Deployment = "other" },
		func(md *backend.Metadata) { md.Tenant = "c" },
	} {
		md := backend.Metadata{
			Deployment: "test", Config: "main", Tenant: "a", Session: session.NameOf("test", sessionsOfModel[0]),
			Labels: map[string]string{session.LabelSession: "s"},
		}
		change(&md)
		m.account.Put(backend.Sandbox{
			Ref: backend.Ref{Config: "main", ID: fmt.Sprintf("foreign-%d", i)}, State: backend.StateRunning,
			Metadata: md, Created: time.Unix(1, 0),
		})
	}
	return m
}

// empty forgets all bindings and locks, as a restart of Redis does.
func (m *model) empty() {
	for _, s := range m.stores {
		_ = s.Close()
	}
	m.stores = nil
	m.engine = memory.NewEngine(memory.Options{Now: m.clock.Now}) // leases end when the clock says so
	if m.plant.engine != nil {
		m.engine = m.plant.engine(m.engine)
	}
	for range 2 {
		s, err := binding.New(&bindingtest.Faulty{
			Engine: unclosable{m.engine},
			Before: func(context.Context, string) error { return storeFault(m.fault(false)) },
			After:  func(string) error { return storeFault(m.fault(true)) },
		}, binding.Options{LockWait: 100 * time.Millisecond})
		if err != nil {
			m.t.Fatal(err)
		}
		m.stores = append(m.stores, s)
	}
}

// unclosable engines outlive one of the stores that share them.
type unclosable struct{ binding.Engine }

func (unclosable) Close() error { return nil }

// storeFault is a fault in the store's own words.
func storeFault(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &binding.Error{Reason: binding.Down, Err: err}
}

// fault takes the next fault, if it is due.
func (m *model) fault(late bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.faults) == 0 || m.faults[0].late != late {
		return nil
	}
	f := m.faults[0]
	m.faults = m.faults[1:]
	return f.err
}

// watch sees what a replica is about to do at the provider.
func (m *model) watch(op, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case op == "Delete" && strings.HasPrefix(id, "foreign"):
		m.broken = append(m.broken, "somebody else's sandbox is deleted: "+id)
	case op == "Delete":
		for key, used := range m.used {
			if used == id && !m.doomed[key] {
				m.broken = append(m.broken, fmt.Sprintf("the sandbox of %v is deleted for no reason", key))
			}
		}
	case op == "Exec" && strings.HasPrefix(id, "foreign"):
		m.broken = append(m.broken, "somebody else's sandbox is used: "+id)
	}
}

func (m *model) SessionExists(_ context.Context, key binding.Key) (bool, error) {
	if err := m.fault(false); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.gone[key] && !m.plant.exists, nil
}

func (m *model) manager(replica int, tenant string) *session.Manager {
	mgr, err := session.NewManager(session.ManagerOptions{
		Tenant: tenant, Config: "main", Targets: m.targets[replica], Store: m.stores[replica], Deployment: "test",
		Exists: m, Now: m.clock.Now,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return mgr
}

// at returns the sandbox with an id, if it lives.
func (m *model) at(id string) (backend.Sandbox, bool) {
	for _, sb := range m.account.Live() {
		if sb.ID == id {
			return sb, true
		}
	}
	return backend.Sandbox{}, false
}

// use works in a session on a replica and checks in which sandbox that was.
func (m *model) use(replica int, key binding.Key) error {
	m.mu.Lock()
	before, doomed := m.used[key], m.doomed[key]
	m.mu.Unlock()
	_, lived := m.at(before)
	mgr := m.manager(replica, key.Tenant)
	files, err := mgr.Files(context.Background())
	if err != nil {
		return err
	}
	// A written file says where the work took place: the sandbox that holds it.
	mark := fmt.Sprintf("mark-%d", m.clock.Now().UnixNano())
	if err := files.Write(context.Background(), key.Session, session.File{Path: mark, Content: strings.NewReader(mark)}); err != nil {
		return err
	}
	id := m.account.Holder("/mnt/data/" + mark)
	sb, ok := m.at(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !ok:
		return nil // it vanished meanwhile
	case sb.Metadata.Tenant != key.Tenant || sb.Metadata.Labels[session.LabelSession] != key.Session || sb.Metadata.Deployment != "test":
		m.broken = append(m.broken, fmt.Sprintf("%v works in the sandbox of %+v", key, sb.Metadata))
	case before != "" && lived && id != before && !doomed && m.used[key] == before:
		m.broken = append(m.broken, fmt.Sprintf("%v lost its sandbox %s although it lived, and works in %s", key, before, id))
	}
	m.used[key], m.doomed[key] = id, m.gone[key] // what was stale has been replaced
	return nil
}

// check is what must hold whatever happens.
func (m *model) check(t *rapid.T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.broken) > 0 {
		t.Fatal(strings.Join(m.broken, "; "))
	}
	for i, r := range m.targets {
		if n := r.Held(); n != 0 {
			t.Fatalf("replica %d holds %d targets", i, n)
		}
	}
	if slices.Contains(m.account.Caps, backend.CapNames) {
		seen := make(map[string]bool)
		for _, sb := range m.account.Live() {
			if seen[sb.ID] {
				t.Fatalf("two sandboxes are called %s", sb.ID)
			}
			seen[sb.ID] = true
		}
	}
}

// settle ends all faults and checks what must hold then: every session can be used,
// after one sweep nothing is left over and nothing is bound to the dead.
func (m *model) settle(t *rapid.T) {
	m.mu.Lock()
	m.faults = nil
	m.mu.Unlock()
	m.clock.Advance(time.Hour)
	for _, key := range sessionsOfModel {
		m.clock.Advance(time.Second)
		if err := m.use(0, key); err != nil && (!m.gone[key] || !errors.Is(err, session.ErrDeleted)) {
			t.Fatalf("%v cannot be used when all is well: %v", key, err)
		}
	}
	m.clock.Advance(time.Hour)
	if r, err := m.reaper(1).Sweep(context.Background()); err != nil {
		t.Fatalf("sweep: %+v, %v", r, err)
	}
	live := make(map[binding.Key][]string)
	for _, sb := range m.account.Live() {
		if !strings.HasPrefix(sb.ID, "foreign") {
			key := binding.Key{Tenant: sb.Metadata.Tenant, Session: sb.Metadata.Labels[session.LabelSession]}
			live[key] = append(live[key], sb.ID)
		}
	}
	if _, ok := m.at("foreign-0"); !ok {
		t.Fatal("somebody else's sandbox is gone")
	}
	bound, err := m.stores[0].Bindings(context.Background(), sessionsOfModel)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range sessionsOfModel {
		b, isBound := bound[key]
		switch ids := live[key]; {
		case m.gone[key] && isBound && len(ids) == 1 && ids[0] == b.Sandbox:
			// Deleted elsewhere without Destroy, and still bound: its end is Destroy's.
		case m.gone[key] && (len(ids) != 0 || isBound):
			t.Fatalf("%v is deleted and has sandboxes %v, binding %v", key, ids, b)
		case !m.gone[key] && (len(ids) != 1 || !isBound || b.Sandbox != ids[0]):
			t.Fatalf("%v has sandboxes %v, binding %v", key, ids, b)
		}
		st, err := m.stores[0].State(context.Background(), key, binding.Keep)
		if err != nil || st.Turns != 0 || st.Work != 0 || st.Rewinding {
			t.Fatalf("%v is left held: %+v, %v", key, st, err)
		}
	}
	m.check(t)
}

func (m *model) reaper(replica int) *reaper.Reaper {
	return reaper.New(reaper.Options{
		Targets: m.targets[replica], Store: m.stores[replica], Deployment: "test", Exists: m, Now: m.clock.Now,
	})
}

// run is the property.
func runModel(t *rapid.T, plant planted) {
	m := newModel(t, plant)
	defer func() {
		for _, s := range m.stores {
			_ = s.Close()
		}
	}()
	key := func(t *rapid.T) binding.Key { return rapid.SampledFrom(sessionsOfModel).Draw(t, "session") }
	replica := func(t *rapid.T) int { return rapid.IntRange(0, 1).Draw(t, "replica") }
	doom := func(k binding.Key, to bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.doomed[k] = to
	}
	t.Repeat(map[string]func(*rapid.T){
		"use": func(t *rapid.T) {
			m.clock.Advance(time.Second)
			_ = m.use(replica(t), key(t))
		},
		"use from everywhere": func(t *rapid.T) {
			m.clock.Advance(time.Second)
			k := key(t)
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					mgr := m.manager(i%2, k.Tenant)
					if _, err := mgr.Exec(context.Background(), k.Session, pwd); err == nil {
						if id, err := mgr.Bound(context.Background(), k.Session); err == nil {
							m.claim(k, id)
						}
					}
				})
			}
			wg.Wait()
		},
		"destroy": func(t *rapid.T) {
			k := key(t)
			doom(k, true)
			if m.manager(replica(t), k.Tenant).Destroy(context.Background(), k.Session) == nil {
				m.forget(k)
				doom(k, m.gone[k])
			}
		},
		"vanish": func(t *rapid.T) {
			live := m.account.Live()
			if sb := rapid.SampledFrom(live).Draw(t, "sandbox"); !strings.HasPrefix(sb.ID, "foreign") {
				m.account.Vanish(sb.ID)
			}
		},
		"pause": func(t *rapid.T) {
			// Nothing of a session that was idle for longer is left running.
			one := rapid.SampledFrom(m.account.Live()).Draw(t, "sandbox")
			for _, sb := range m.account.Live() {
				if sb.Metadata.Session == one.Metadata.Session {
					m.account.Change(sb.ID, func(sb *backend.Sandbox) { sb.State = backend.StatePaused })
				}
			}
		},
		"lose sight of a creation": func(t *rapid.T) {
			if !m.second(t, key(t)) {
				t.Skip("there is none, or there cannot be two")
			}
		},
		"empty the store": func(*rapid.T) { m.empty() },
		"mark stale": func(t *rapid.T) {
			m.clock.Advance(time.Second)
			k := key(t)
			for _, other := range sessionsOfModel {
				if other.Tenant == k.Tenant {
					doom(other, true)
				}
			}
			_, _ = m.manager(replica(t), k.Tenant).MarkStale(context.Background())
		},
		"delete the session": func(t *rapid.T) {
			k := key(t)
			m.mu.Lock()
			defer m.mu.Unlock()
			m.gone[k], m.doomed[k] = true, true
		},
		"pass time": func(t *rapid.T) {
			m.clock.Advance(time.Duration(rapid.IntRange(1, 60).Draw(t, "minutes")) * time.Minute)
		},
		"sweep": func(t *rapid.T) { _, _ = m.reaper(replica(t)).Sweep(context.Background()) },
		"break": func(t *rapid.T) {
			n := rapid.IntRange(1, 4).Draw(t, "faults")
			m.mu.Lock()
			defer m.mu.Unlock()
			for range n {
				m.faults = append(m.faults, fault{
					late: rapid.Bool().Draw(t, "late"),
					err: rapid.SampledFrom([]error{
						account.Down(), context.Canceled,
						&backend.Error{Kind: backend.KindNotFound, Plane: backend.PlaneData, Subject: backend.SubjectSandbox},
						&backend.Error{Kind: backend.KindTimeout}, &backend.Error{Kind: backend.KindAuthentication},
					}).Draw(t, "fault"),
				})
			}
		},
		"mend": func(*rapid.T) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.faults = nil
		},
		"": m.check,
	})
	m.settle(t)
}

// claim notes that a session works in a sandbox, unless another one was noted.
func (m *model) claim(k binding.Key, id string) {
	sb, ok := m.at(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !ok {
		return
	}
	if sb.Metadata.Tenant != k.Tenant {
		m.broken = append(m.broken, fmt.Sprintf("%v is bound to the sandbox of %+v", k, sb.Metadata))
	}
	if before := m.used[k]; before != "" && before != id && !m.doomed[k] {
		for _, sb := range m.account.Live() {
			if sb.ID == before {
				m.broken = append(m.broken, fmt.Sprintf("%v works in %s and in %s", k, before, id))
			}
		}
	}
	m.used[k], m.doomed[k] = id, m.gone[k]
}

func (m *model) forget(k binding.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.used, k)
}

func TestModel(t *testing.T) { rapid.Check(t, func(t *rapid.T) { runModel(t, planted{}) }) }

// The model finds what it is there to find.
// openLocks gives every lock to whoever asks.
// overwriting replaces whatever is bound.
// unmatched never deletes a binding.
// fails reports whether a test would fail.
// recorder is a test that may fail.
