package backendconfig

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
)

// world is a backend with sandboxes of one config.
type world struct {
	*hostbackend.Backend
	// stuck are sandboxes that cannot be deleted, stray are listed although they are
	// somebody else's.
	stuck []string
	stray []backend.Sandbox
	// cordons and config are looked at while sandboxes end.
	cordons *Memory
	open    []bool
}

func newWorld(t *testing.T, sandboxes ...string) *world {
	t.Helper()
	w := &world{Backend: hostbackend.New(t.TempDir()), cordons: &Memory{}}
	t.Cleanup(func() { _ = w.Backend.Close() })
	if err := w.OpenConfig(t.Context(), "main", json.RawMessage(`{"label":"old"}`)); err != nil {
		t.Fatal(err)
	}
	for _, s := range sandboxes {
		w.create(t, s)
	}
	return w
}

func (w *world) create(t *testing.T, session string) {
	t.Helper()
	_, err := w.Create(t.Context(), backend.CreateSpec{
		Config: "main", Session: session,
		Metadata: backend.Metadata{Deployment: "d", Config: "main", Session: session, Tenant: "t", Origin: "exec"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) Delete(ctx context.Context, ref backend.Ref) error {
	held, _ := w.cordons.Cordoned(ctx, "main")
	w.open = append(w.open, !held)
	if slices.Contains(w.stuck, ref.ID) {
		return backend.Errorf(backend.KindUnavailable, "Delete", "try again")
	}
	return w.Backend.Delete(ctx, ref)
}

func (w *world) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	all, err := w.Backend.List(ctx, f)
	return append(all, w.stray...), err
}

func (w *world) left(t *testing.T) int {
	t.Helper()
	all, err := w.Backend.List(t.Context(), backend.ListFilter{Config: "main"})
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestChange is the table of changes: what is stored, what is ended, what is said.
func TestChange(t *testing.T) {
	for name, c := range map[string]struct {
		sandboxes []string
		stuck     []string
		next      string // empty deletes
		release   bool
		stored    bool
		left      int
		err       string
	}{
		"the same sandboxes":               {sandboxes: []string{"a"}, next: `{"label":"old","odd":1}`, stored: true, left: 1},
		"nothing lives":                    {next: `{"label":"new"}`, stored: true},
		"something lives":                  {sandboxes: []string{"a", "b"}, next: `{"label":"new"}`, left: 2, err: "2 live sandboxes"},
		"deletion while something lives":   {sandboxes: []string{"a"}, left: 1, err: "1 live sandboxes"},
		"deletion of what is unused":       {stored: true},
		"released":                         {sandboxes: []string{"a", "b"}, next: `{"label":"new"}`, release: true, stored: true},
		"deleted and released":             {sandboxes: []string{"a", "b"}, release: true, stored: true},
		"one cannot be released":           {sandboxes: []string{"a", "b", "c"}, stuck: []string{"b"}, release: true, left: 1, err: "unchanged"},
		"lacks something":                  {sandboxes: []string{"a"}, next: `{"odd":1}`, release: true, left: 1, err: "lacks label"},
		"refused by the schema":            {sandboxes: []string{"a"}, next: `{"label":7}`, release: true, left: 1, err: "label"},
		"an unused one lacks something":    {next: `{}`, err: "lacks label"},
		"same sandboxes, but wrong":        {next: `{"label":"old","odd":"x"}`, err: "odd"},
		"deletion of one that is released": {sandboxes: nil, release: true, stored: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.sandboxes...)
			w.stuck = c.stuck
			stored := false
			change := Change{
				Config: "main", Deployment: "d", Description: described(t, "testdata/host.yaml"), Old: json.RawMessage(`{"label":"old"}`),
				Backend: w, Cordons: w.cordons, Release: c.release,
				Store: func(context.Context) error { stored = true; return nil },
			}
			if c.next != "" {
				change.New = json.RawMessage(c.next)
			}
			err := change.Apply(t.Context())
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("Apply = %v, want %q", err, c.err)
			}
			if stored != c.stored || w.left(t) != c.left {
				t.Errorf("stored %v, %d sandboxes left; want %v, %d", stored, w.left(t), c.stored, c.left)
			}
			if slices.Contains(w.open, true) {
				t.Error("a sandbox was ended without a cordon")
			}
			if held, _ := w.cordons.Cordoned(t.Context(), "main"); held {
				t.Error("the cordon stays")
			}
		})
	}
}

// TestStray: a listing with somebody else's sandbox ends nothing.
func TestStray(t *testing.T) {
	w := newWorld(t, "a")
	w.stray = []backend.Sandbox{{Ref: backend.Ref{Config: "main", ID: "x"}, State: backend.StateRunning, Metadata: backend.Metadata{Deployment: "other"}}}
	n, err := Release(t.Context(), w, backend.ListFilter{Config: "main", Deployment: "d"})
	if err == nil || n != 0 || w.left(t) != 1 {
		t.Errorf("Release = %d, %v; %d left", n, err, w.left(t))
	}
}

// TestReleaseTwice: what failed is tried again by the next call.
func TestReleaseTwice(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.stuck = []string{"a"}
	filter := backend.ListFilter{Config: "main", Deployment: "d"}
	if n, err := Release(t.Context(), w, filter); err == nil || n != 1 {
		t.Errorf("Release = %d, %v", n, err)
	}
	w.stuck = nil
	if n, err := Release(t.Context(), w, filter); err != nil || n != 1 || w.left(t) != 0 {
		t.Errorf("Release = %d, %v; %d left", n, err, w.left(t))
	}
}

// TestCordonLease: a cordon ends by itself, and is one holder's.
func TestCordonLease(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := &Memory{Now: func() time.Time { return now }}
	ctx := t.Context()
	hold := func(holder string, want bool) {
		t.Helper()
		if ok, err := m.Hold(ctx, "main", holder, time.Minute); err != nil || ok != want {
			t.Errorf("%s holds %v, %v", holder, ok, err)
		}
	}
	hold("a", true)
	hold("b", false)
	hold("a", true)
	_ = m.Lift(ctx, "main", "b")
	hold("b", false)
	now = now.Add(time.Minute)
	if held, _ := m.Cordoned(ctx, "main"); held {
		t.Error("a cordon outlives its lease")
	}
	hold("b", true)
	_ = m.Lift(ctx, "main", "b")
	hold("c", true)
}

// TestBusy: two changes of one config do not meet.
func TestBusy(t *testing.T) {
	w := newWorld(t)
	if ok, err := w.cordons.Hold(t.Context(), "main", "other", time.Minute); err != nil || !ok {
		t.Fatal(err)
	}
	err := Change{
		Config: "main", Description: described(t, "testdata/host.yaml"), Backend: w, Cordons: w.cordons,
		Store: func(context.Context) error { t.Error("stored"); return nil },
	}.Apply(t.Context())
	if !errors.Is(err, ErrBusy) {
		t.Errorf("Apply = %v", err)
	}
}

// TestLostCordon: a change that takes long renews its cordon, and stops when it cannot.
func TestLostCordon(t *testing.T) {
	w := newWorld(t)
	d := described(t, "testdata/host.yaml")
	synctest.Test(t, func(t *testing.T) {
		cordons := &Memory{}
		change := Change{Config: "main", Deployment: "d", Description: d, Backend: w, Cordons: cordons}
		change.Store = func(ctx context.Context) error {
			time.Sleep(3 * CordonTime)
			if held, _ := cordons.Cordoned(ctx, "main"); !held || ctx.Err() != nil {
				t.Errorf("after three times its length the cordon is held %v, %v", held, ctx.Err())
			}
			return nil
		}
		if err := change.Apply(t.Context()); err != nil {
			t.Error(err)
		}
		change.Store = func(ctx context.Context) error {
			cordons.mu.Lock()
			cordons.held["main"] = lease{"thief", time.Now().Add(time.Hour)}
			cordons.mu.Unlock()
			<-ctx.Done()
			return ctx.Err()
		}
		if err := change.Apply(t.Context()); err == nil || !strings.Contains(err.Error(), "cordon was lost") {
			t.Errorf("Apply without its cordon = %v", err)
		}
	})
}

// pool is one target, and whether it is held.
type pool struct{ held int }

func (p *pool) target() session.Target {
	p.held++
	return session.Target{Config: "main", Release: func() { p.held-- }}
}
func (p *pool) Default(context.Context, string) (session.Target, error) { return p.target(), nil }
func (p *pool) Named(context.Context, string, string) (session.Target, error) {
	return p.target(), nil
}
func (p *pool) Configs(string) []string { return []string{"main"} }

// blind cannot say whether anything is cordoned.
type blind struct{ Memory }

func (*blind) Cordoned(context.Context, string) (bool, error) { return false, errors.New("no answer") }

// TestTargets: a cordoned config takes no work, and no handle of it is kept.
func TestTargets(t *testing.T) {
	for name, c := range map[string]struct {
		cordons Cordons
		open    bool
	}{"open": {&Memory{}, true}, "cordoned": {held(t), false}, "nobody knows": {&blind{}, false}} {
		p := &pool{}
		targets := Targets(p, c.cordons)
		for _, find := range []func() (session.Target, error){
			func() (session.Target, error) { return targets.Named(t.Context(), "tenant", "main") },
			func() (session.Target, error) { return targets.Default(t.Context(), "tenant") },
		} {
			x, err := find()
			if (err == nil) != c.open || err != nil && !errors.Is(err, session.ErrConfigCordoned) {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				x.Release()
			}
		}
		x, err := targets.Named(t.Context(), "", "main")
		if err != nil {
			t.Errorf("%s: the deployment itself is kept out: %v", name, err)
		} else {
			x.Release()
		}
		if p.held != 0 {
			t.Errorf("%s: %d targets are held", name, p.held)
		}
	}
}

func held(t *testing.T) Cordons {
	m := &Memory{}
	if ok, err := m.Hold(t.Context(), "main", "x", time.Hour); err != nil || !ok {
		t.Fatal(err)
	}
	return m
}

// TestShared: two replicas that share a session store see each other's cordons, in time
// before whoever holds one begins, and none while the store cannot be asked.
func TestShared(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	engine := memory.NewEngine(memory.Options{Now: clock})
	down := false
	open := func() *binding.Store {
		s, err := binding.New(&bindingtest.Faulty{Engine: engine, Before: func(context.Context, string) error {
			if down {
				return &binding.Error{Reason: binding.Down, Err: errors.New("down")}
			}
			return nil
		}}, binding.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	a, b := Shared(open(), clock), Shared(open(), clock)
	cordoned := func(c Cordons, want bool) {
		t.Helper()
		if held, err := c.Cordoned(t.Context(), "main"); held != want || err != nil {
			t.Errorf("cordoned %v, %v; want %v", held, err, want)
		}
	}
	cordoned(b, false)
	for _, c := range []struct {
		by   Cordons
		name string
		want bool
	}{{a, "one", true}, {a, "one", true}, {b, "two", false}, {a, "two", false}} {
		if held, err := c.by.Hold(t.Context(), "main", c.name, CordonTime); held != c.want || err != nil {
			t.Errorf("%s: held %v, %v", c.name, held, err)
		}
	}
	if held, err := b.Hold(t.Context(), "other", "two", CordonTime); !held || err != nil {
		t.Errorf("another config: %v, %v", held, err)
	}
	cordoned(a, true)
	now = now.Add(a.Settle())
	cordoned(b, true)
	if err := a.Lift(t.Context(), "main", "one"); err != nil {
		t.Fatal(err)
	}
	cordoned(a, false)
	now = now.Add(a.Settle())
	cordoned(b, false)
	if held, err := b.Hold(t.Context(), "main", "two", CordonTime); !held || err != nil {
		t.Errorf("after the first: %v, %v", held, err)
	}
	now = now.Add(2 * CordonTime) // whoever held it is gone
	cordoned(a, false)
	down = true
	now = now.Add(a.Settle())
	cordoned(b, false)
	if held, err := b.Hold(t.Context(), "main", "two", CordonTime); held || err == nil {
		t.Errorf("without the store: %v, %v", held, err)
	}
}
