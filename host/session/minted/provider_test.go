package minted

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// provider is a provider account with scripted faults: what cannot be provoked
// in a real one. Methods that sessions never call are left to panic.
type provider struct {
	backend.Backend
	caps []backend.Capability
	now  func() time.Time

	mu      sync.Mutex
	boxes   map[string]backend.Sandbox
	deleted []string
	woken   int
	fault   func(op string) error // before the operation
	late    func(op string) error // after it
	// careless ignores list filters.
	careless bool
}

func newProvider(now func() time.Time, caps ...backend.Capability) *provider {
	return &provider{caps: caps, now: now, boxes: map[string]backend.Sandbox{}}
}

func (p *provider) enter(op string) (leave func(*error), err error) {
	p.mu.Lock()
	if p.fault != nil {
		if err := p.fault(op); err != nil {
			p.mu.Unlock()
			return nil, err
		}
	}
	return func(err *error) {
		if p.late != nil && *err == nil {
			*err = p.late(op)
		}
		p.mu.Unlock()
	}, nil
}

func gone() error {
	return &backend.Error{Kind: backend.KindNotFound, Subject: backend.SubjectSandbox, Plane: backend.PlaneControl}
}

func (p *provider) Create(_ context.Context, spec backend.CreateSpec) (sb backend.Sandbox, err error) {
	leave, err := p.enter("Create")
	if err != nil {
		return sb, err
	}
	defer leave(&err)
	id := spec.Session
	if !slices.Contains(p.caps, backend.CapNames) {
		id = "box-" + spec.Session
	}
	now := p.now()
	sb = backend.Sandbox{Ref: backend.Ref{Config: spec.Config, ID: id}, State: backend.StateRunning, Metadata: spec.Metadata, Created: now, LastActive: now}
	p.boxes[id] = sb
	return sb, nil
}

func (p *provider) Connect(_ context.Context, ref backend.Ref) (sb backend.Sandbox, err error) {
	leave, err := p.enter("Connect")
	if err != nil {
		return sb, err
	}
	defer leave(&err)
	sb, ok := p.boxes[ref.ID]
	if !ok {
		return sb, gone()
	}
	p.woken++
	sb.State, sb.LastActive = backend.StateRunning, p.now()
	p.boxes[ref.ID] = sb
	return sb, nil
}

func (p *provider) Get(_ context.Context, ref backend.Ref) (sb backend.Sandbox, err error) {
	leave, err := p.enter("Get")
	if err != nil {
		return sb, err
	}
	defer leave(&err)
	sb, ok := p.boxes[ref.ID]
	if !ok {
		return sb, gone()
	}
	return sb, nil
}

func (p *provider) List(_ context.Context, f backend.ListFilter) (out []backend.Sandbox, err error) {
	leave, err := p.enter("List")
	if err != nil {
		return nil, err
	}
	defer leave(&err)
	for _, sb := range p.boxes {
		if p.careless || f.Matches(sb) {
			out = append(out, sb)
		}
	}
	return out, nil
}

func (p *provider) Delete(_ context.Context, ref backend.Ref) (err error) {
	leave, err := p.enter("Delete")
	if err != nil {
		return err
	}
	defer leave(&err)
	delete(p.boxes, ref.ID)
	p.deleted = append(p.deleted, ref.ID)
	return nil
}

// deployment is one host's sessions over some providers by config id.
type deployment struct {
	providers map[string]*provider
	order     []string
	node      string
	held      int
	mu        sync.Mutex
}

func (d *deployment) Default(ctx context.Context, tenant string) (session.Target, error) {
	return d.Named(ctx, tenant, d.order[0])
}

func (d *deployment) Named(_ context.Context, _, config string) (session.Target, error) {
	p, ok := d.providers[config]
	if !ok {
		return session.Target{}, session.ErrConfigNotFound
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held++
	return session.Target{
		Config: config, Node: d.node, Backend: p, Info: backend.Info{Capabilities: p.caps},
		Release: sync.OnceFunc(func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.held--
		}),
	}, nil
}

func (d *deployment) Configs(string) []string { return d.order }

type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// setup returns sessions over a default provider with names and a second
// without, and checks at the end that every target was released.
func setup(t *testing.T) (*Sessions, *deployment, *clock) {
	t.Helper()
	c := &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	d := &deployment{
		providers: map[string]*provider{
			"main":  newProvider(c.now, backend.CapNames, backend.CapList, backend.CapMetadata),
			"other": newProvider(c.now, backend.CapList, backend.CapMetadata),
		},
		order: []string{"main", "other"},
	}
	keys, err := identity.NewKeys([]byte("a deployment secret of the tests"))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{Keys: keys, Targets: d, Deployment: "test", Now: c.now, MaxWaiting: 2})
	t.Cleanup(func() {
		if d.held != 0 {
			t.Errorf("%d targets were not released", d.held)
		}
		if n := len(s.lanes.m); n != 0 {
			t.Errorf("%d lanes are left", n)
		}
	})
	return s, d, c
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

// only returns the provider's single box.
func (p *provider) only(t *testing.T) backend.Sandbox {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.boxes) != 1 {
		t.Fatalf("%d boxes, want one", len(p.boxes))
	}
	for sb := range maps.Values(p.boxes) {
		return sb
	}
	panic("unreachable")
}

func (p *provider) change(id string, f func(*backend.Sandbox)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sb := p.boxes[id]
	f(&sb)
	p.boxes[id] = sb
}
