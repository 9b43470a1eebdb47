package minted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// labelKey holds the service key under which a session was made.
const labelKey = "caisson.key"

// cleanupTimeout bounds work that must outlive a cancelled request.
const cleanupTimeout = 30 * time.Second

// Options of New.
type Options struct {
	Keys    *identity.Keys
	Targets session.Targets
	// Deployment is stamped on every sandbox and told apart in every listing.
	Deployment string
	Clocks     session.Clocks
	// MaxWaiting bounds how many runs may wait for one session; zero means 16.
	MaxWaiting int
	Log        hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Sessions finds, makes and ends sessions. It holds no authoritative state: two
// replicas over the same providers agree. Safe for concurrent use.
type Sessions struct {
	o       Options
	lanes   lanes
	uploads uploads
}

// New returns Sessions over targets.
func New(o Options) *Sessions {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = 16
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.Clocks == (session.Clocks{}) {
		o.Clocks = session.DefaultClocks()
	}
	return &Sessions{o: o, lanes: lanes{max: o.MaxWaiting}}
}

// Default returns where owner's next new session goes. The caller releases it.
func (s *Sessions) Default(ctx context.Context, owner session.Owner) (session.Target, error) {
	return s.o.Targets.Default(ctx, owner.Tenant)
}

// Lookup finds a session without creating or waking anything. It returns
// ErrNotFound for ids that were never issued, are gone, or belong to somebody
// else; any other error means that the answer is not known.
func (s *Sessions) Lookup(ctx context.Context, owner session.Owner, id string) (session.Session, error) {
	route, ok := s.o.Keys.Session(id)
	if !ok || owner.Tenant == "" {
		return session.Session{}, session.ErrNotFound
	}
	var unknown error
	for _, config := range s.o.Targets.Configs("") {
		target, err := s.o.Targets.Named(ctx, "", config)
		if err != nil {
			unknown = err
			continue
		}
		if !slices.Contains(s.o.Keys.Routes(config, target.Node), route) {
			target.Release()
			continue
		}
		sb, err := s.find(ctx, target, id)
		switch {
		case err == nil && owns(owner, sb.Metadata):
			return session.Session{ID: id, Sandbox: sb, Target: target}, nil
		case err != nil && !errors.Is(err, session.ErrNotFound):
			unknown = err
		}
		target.Release()
	}
	if unknown != nil {
		return session.Session{}, fmt.Errorf("look up session: %w", unknown)
	}
	return session.Session{}, session.ErrNotFound
}

// find returns the live sandbox of a session at one provider.
func (s *Sessions) find(ctx context.Context, t session.Target, id string) (backend.Sandbox, error) {
	filter := backend.ListFilter{Config: t.Config, Deployment: s.o.Deployment, Session: id}
	var found []backend.Sandbox
	if t.Info.Has(backend.CapNames) {
		sb, err := t.Backend.Get(ctx, backend.Ref{Config: t.Config, ID: id})
		if err != nil && !backend.ProvesGone(err) {
			return backend.Sandbox{}, err
		}
		if err == nil {
			found = append(found, sb)
		}
	} else {
		all, err := t.Backend.List(ctx, filter)
		if err != nil {
			return backend.Sandbox{}, err
		}
		found = all
	}
	// The filter is applied again: a provider that ignores it must not make us
	// adopt somebody else's sandbox.
	found = slices.DeleteFunc(found, func(sb backend.Sandbox) bool { return !filter.Matches(sb) })
	if len(found) == 0 {
		return backend.Sandbox{}, session.ErrNotFound
	}
	return slices.MinFunc(found, func(a, b backend.Sandbox) int { return a.Created.Compare(b.Created) }), nil
}

// owns is the ownership rule: one's own tenant, or the same service key
// (docs/wire.md).
func owns(o session.Owner, m backend.Metadata) bool {
	return m.Tenant == o.Tenant || (o.KeyID != "" && m.Labels[labelKey] == o.KeyID)
}

// Open finds a session and makes it ready for work, waking it if need be.
func (s *Sessions) Open(ctx context.Context, owner session.Owner, id string) (session.Session, error) {
	x, err := s.Lookup(ctx, owner, id)
	if err != nil {
		return session.Session{}, err
	}
	sb, err := x.Backend.Connect(ctx, x.Sandbox.Ref)
	if err != nil {
		x.Release()
		if backend.ProvesGone(err) {
			return session.Session{}, session.ErrNotFound
		}
		return session.Session{}, fmt.Errorf("connect session: %w", err)
	}
	x.Sandbox = sb
	return x, nil
}

// Create makes a session on target. The session takes target over: release the
// session, not the target. On failure nothing is left behind and target is
// still the caller's.
func (s *Sessions) Create(ctx context.Context, owner session.Owner, target session.Target, opts session.CreateOptions) (session.Session, error) {
	if owner.Tenant == "" {
		return session.Session{}, errors.New("create session: no tenant")
	}
	id, err := s.o.Keys.NewSession(s.o.Keys.Route(target.Config, target.Node))
	if err != nil {
		return session.Session{}, fmt.Errorf("create session: %w", err)
	}
	labels := make(map[string]string, len(opts.Labels)+1)
	for k, v := range opts.Labels {
		labels[k] = v
	}
	if delete(labels, labelKey); owner.KeyID != "" {
		labels[labelKey] = owner.KeyID
	}
	sb, err := target.Backend.Create(ctx, backend.CreateSpec{
		Config:  target.Config,
		Session: id,
		Network: opts.Network,
		Timeout: backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: s.o.Clocks.TTL, Action: backend.TimeoutKill},
		Metadata: backend.Metadata{
			Deployment: s.o.Deployment, Config: target.Config, Session: id,
			Tenant: owner.Tenant, User: owner.User, Origin: string(opts.Origin), Labels: labels,
		},
	})
	if err != nil {
		s.abandon(ctx, target, id, err)
		return session.Session{}, fmt.Errorf("create session: %w", err)
	}
	return session.Session{ID: id, Sandbox: sb, Target: target}, nil
}

// abandon deletes what a failed Create may have made: a cancelled or timed-out
// call says nothing about whether the sandbox exists.
func (s *Sessions) abandon(ctx context.Context, t session.Target, id string, cause error) {
	switch backend.KindOf(cause) {
	case backend.KindInvalidRequest, backend.KindUnsupported, backend.KindAuthentication, backend.KindConflict, backend.KindCapacity:
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	sb, err := s.find(ctx, t, id)
	if err == nil {
		err = t.Backend.Delete(ctx, sb.Ref)
	}
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		s.o.Log.Warn("a sandbox may be left behind by a failed create; the sweep will find it", "session", id, "error", err)
	}
}

// End deletes a session and everything in it.
func (s *Sessions) End(ctx context.Context, owner session.Owner, id string) error {
	x, err := s.Lookup(ctx, owner, id)
	if err != nil {
		return err
	}
	defer x.Release()
	if err := x.Backend.Delete(ctx, x.Sandbox.Ref); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	s.uploads.forget(id)
	return nil
}

// List returns a tenant's live sandboxes on every config, without waking any.
// An empty tenant lists the deployment's. A provider that cannot be asked is an
// error beside what the others answered.
func (s *Sessions) List(ctx context.Context, tenant string) ([]backend.Sandbox, error) {
	var all []backend.Sandbox
	var errs []error
	for _, config := range s.o.Targets.Configs(tenant) {
		err := s.listConfig(ctx, config, tenant, func(_ session.Target, sb backend.Sandbox) { all = append(all, sb) })
		if err != nil {
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

func (s *Sessions) listConfig(ctx context.Context, config, tenant string, each func(session.Target, backend.Sandbox)) error {
	t, err := s.o.Targets.Named(ctx, tenant, config)
	if err != nil {
		return err
	}
	defer t.Release()
	filter := backend.ListFilter{Config: t.Config, Deployment: s.o.Deployment, Tenant: tenant}
	sandboxes, err := t.Backend.List(ctx, filter)
	if err != nil {
		return fmt.Errorf("list sandboxes of config %q: %w", config, err)
	}
	for _, sb := range sandboxes {
		if filter.Matches(sb) {
			each(t, sb)
		}
	}
	return nil
}
