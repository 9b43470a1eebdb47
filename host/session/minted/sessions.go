package minted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// labelKey holds the service key under which a session was made.
const labelKey = "caisson.key"

// keyspace is the tenant of minted sessions in the binding store. Their ids are
// unique by themselves, and whoever asks may not be whose session it is.
const keyspace = "_minted"

func keyOf(id string) binding.Key { return binding.Key{Tenant: keyspace, Session: id} }

// cleanupTimeout bounds work that must outlive a cancelled request.
const cleanupTimeout = 30 * time.Second

// Options of New. Keys, Targets and Store are required.
type Options struct {
	Keys    *identity.Keys
	Targets session.Targets
	Store   *binding.Store
	// Shared says that other replicas use Store: runs in one session then wait for
	// those on other replicas too.
	Shared bool
	// Deployment is stamped on every sandbox and told apart in every listing.
	Deployment string
	Clocks     session.Clocks
	// MaxWaiting bounds how many runs may wait for one session; zero means 16.
	MaxWaiting int
	// Meter counts held time; nil counts none.
	Meter session.Meter
	Log   hclog.Logger
	// Now is the clock; nil means the system's, protected against jumps.
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
	if o.Clocks == (session.Clocks{}) {
		o.Clocks = session.DefaultClocks()
	}
	if o.Now == nil {
		o.Now = newSteady(o.Clocks.Idle).now
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = 16
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
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
	var found session.Session
	err := s.each(ctx, owner, id, "", func(t session.Target) (bool, error) {
		sb, err := s.find(ctx, t, id)
		if err != nil || !owns(owner, sb.Metadata) {
			return false, err
		}
		found = session.Session{ID: id, Sandbox: sb, Target: t}
		return true, nil
	})
	if err != nil {
		return session.Session{}, fmt.Errorf("look up session: %w", err)
	}
	if found.ID == "" {
		return session.Session{}, session.ErrNotFound
	}
	return found, nil
}

// each offers the targets, as tenant sees them, to which an id's route leads until
// take keeps one. Its error is about a target that could not be asked, if none was
// taken.
func (s *Sessions) each(ctx context.Context, owner session.Owner, id, tenant string, take func(session.Target) (bool, error)) error {
	route, ok := s.o.Keys.Session(id)
	if !ok || owner.Tenant == "" {
		return nil
	}
	var unknown error
	for _, config := range s.o.Targets.Configs(tenant) {
		target, err := s.o.Targets.Named(ctx, tenant, config)
		if err != nil {
			unknown = err
			continue
		}
		if slices.Contains(s.o.Keys.Routes(config, target.Node), route) {
			taken, err := take(target)
			if taken {
				return nil
			}
			if err != nil && !errors.Is(err, session.ErrNotFound) {
				unknown = err
			}
		}
		target.Release()
	}
	return unknown
}

// find returns the live sandbox of a session at one provider.
func (s *Sessions) find(ctx context.Context, t session.Target, id string) (backend.Sandbox, error) {
	filter := backend.ListFilter{Config: t.Config, Deployment: s.o.Deployment, Session: id}
	var found []backend.Sandbox
	var err error
	if t.Info.Has(backend.CapNames) {
		var sb backend.Sandbox
		if sb, err = t.Backend.Get(ctx, backend.Ref{Config: t.Config, ID: id}); err == nil {
			sb.Token, err = s.token(ctx, t, id, sb)
			found = append(found, sb)
		} else if backend.ProvesGone(err) {
			err = nil
		}
	} else {
		found, err = s.nameless(ctx, t, id, filter)
	}
	if err != nil {
		return backend.Sandbox{}, err
	}
	// The filter is applied again: a provider that ignores it must not make us
	// adopt somebody else's sandbox.
	found = slices.DeleteFunc(found, func(sb backend.Sandbox) bool { return !filter.Matches(sb) })
	if len(found) == 0 {
		return backend.Sandbox{}, session.ErrNotFound
	}
	return slices.MinFunc(found, session.Livelier), nil
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
	sb, err := x.Connect(ctx, x.Sandbox.Ref, x.Sandbox.Token)
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

// End deletes a session and everything in it.
func (s *Sessions) End(ctx context.Context, owner session.Owner, id string) error {
	x, err := s.Lookup(ctx, owner, id)
	if err != nil {
		return err
	}
	defer x.Release()
	if err := s.end(ctx, x.Target, x.Sandbox); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	return nil
}

// Discard ends a session that its caller has just made and holds.
func (s *Sessions) Discard(ctx context.Context, x session.Session) error {
	return s.end(ctx, x.Target, x.Sandbox)
}

// end deletes a sandbox and what is remembered about it, the provider first.
func (s *Sessions) end(ctx context.Context, t session.Target, sb backend.Sandbox) error {
	if err := t.Backend.Delete(ctx, sb.Ref); err != nil {
		return err
	}
	id := sb.Metadata.Session
	s.uploads.forget(id)
	if s.o.Meter != nil {
		s.o.Meter.Settle(ctx, session.HoldingOf(sb))
	}
	if s.binds(t, sb) {
		if _, err := s.o.Store.DeleteIfMatch(ctx, keyOf(id), session.ProviderOf(t), sb.ID); err != nil {
			// It points at nothing, which whoever follows it finds out.
			s.o.Log.Warn("the binding of an ended session is left", "session", id, "error", err)
		}
	}
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
