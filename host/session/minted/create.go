package minted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Create makes a session on target. The session takes target over: release the
// session, not the target. On failure nothing is left behind and target is
// still the caller's.
func (s *Sessions) Create(ctx context.Context, owner session.Owner, target session.Target, opts session.CreateOptions) (session.Session, error) {
	id, err := s.o.Keys.NewSession(s.o.Keys.Route(target.Config, target.Node))
	if err == nil {
		var sb backend.Sandbox
		if sb, err = s.make(ctx, owner, target, id, opts); err == nil {
			return session.Session{ID: id, Sandbox: sb, Target: target}, nil
		}
	}
	return session.Session{}, fmt.Errorf("create session: %w", err)
}

// Home is the target to which the id of a session that vanished leads, if owner may
// use it: where Restore makes the session again. Otherwise it is ErrNotFound, and so it is
// for a session that lives and is somebody else's: its turn is its owner's alone, to wait for
// and to keep others waiting. The caller releases it.
func (s *Sessions) Home(ctx context.Context, owner session.Owner, id string) (session.Target, error) {
	var home session.Target
	err := s.each(ctx, owner, id, owner.Tenant, func(t session.Target) (bool, error) {
		sb, err := s.find(ctx, t, id)
		switch {
		case err == nil && !owns(owner, sb.Metadata):
			return false, nil
		case err != nil && !errors.Is(err, session.ErrNotFound):
			return false, err
		}
		home = t
		return true, nil
	})
	if err != nil {
		return home, fmt.Errorf("look up session: %w", err)
	}
	if home.Backend == nil {
		return home, session.ErrNotFound
	}
	return home, nil
}

// Restore makes a session that vanished again, empty and under its own id, or finds
// that somebody else did: however many callers and replicas miss it at once, there
// is one. made says that this call did it. ErrNotFound says that the id is
// somebody's who is not owner. It takes target over as Create does.
func (s *Sessions) Restore(ctx context.Context, owner session.Owner, target session.Target, id string, opts session.CreateOptions) (x session.Session, made bool, err error) {
	x = session.Session{ID: id, Target: target}
	err = s.o.Store.WithLifecycleLock(ctx, keyOf(id), func(ctx context.Context, own *binding.Ownership) error {
		sb, err := s.find(ctx, target, id)
		switch {
		case err == nil && !owns(owner, sb.Metadata):
			return session.ErrNotFound
		case err == nil:
			x.Sandbox, err = target.Connect(ctx, sb.Ref, sb.Token)
			return err
		case !errors.Is(err, session.ErrNotFound):
			return err
		}
		if err := own.Verify(ctx); err != nil {
			return err
		}
		x.Sandbox, err = s.make(ctx, owner, target, id, opts)
		made = err == nil
		return err
	})
	if err != nil {
		return session.Session{}, false, fmt.Errorf("restore session: %w", err)
	}
	return x, made, nil
}

// make makes the sandbox of a session and binds it where it could not be found
// again by its name.
func (s *Sessions) make(ctx context.Context, owner session.Owner, t session.Target, id string, opts session.CreateOptions) (backend.Sandbox, error) {
	if owner.Tenant == "" {
		return backend.Sandbox{}, errors.New("no tenant")
	}
	if s.o.Meter != nil {
		if err := s.o.Meter.Open(ctx, owner.Tenant, opts.Payer); err != nil {
			return backend.Sandbox{}, err
		}
	}
	sb, err := t.Backend.Create(ctx, s.spec(owner, t, id, opts))
	if err != nil {
		s.abandon(ctx, t, id, err)
		return backend.Sandbox{}, err
	}
	if !s.binds(t, sb) {
		return sb, nil
	}
	if err := s.bind(ctx, t, sb); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		return backend.Sandbox{}, errors.Join(err, s.end(ctx, t, sb))
	}
	return sb, nil
}

func (s *Sessions) spec(owner session.Owner, t session.Target, id string, opts session.CreateOptions) backend.CreateSpec {
	labels := make(map[string]string, len(opts.Labels)+2)
	maps.Copy(labels, opts.Labels)
	// What decides about a session is never the caller's to set.
	for k, v := range map[string]string{labelKey: owner.KeyID, session.LabelPayer: opts.Payer, session.LabelSession: "", session.LabelUntil: ""} {
		if delete(labels, k); v != "" {
			labels[k] = v
		}
	}
	life := s.o.Clocks.TTL
	if opts.TTL > 0 {
		life = opts.TTL
		labels[session.LabelUntil] = s.o.Now().Add(life).UTC().Format(time.RFC3339)
	}
	return backend.CreateSpec{
		Config:   t.Config,
		Session:  id,
		Snapshot: opts.Snapshot,
		Env:      opts.Env,
		Network:  opts.Network,
		Timeout:  backend.TimeoutPolicy{Mode: backend.TimeoutAfter, Duration: life, Action: backend.TimeoutKill},
		Metadata: backend.Metadata{
			Deployment: s.o.Deployment, Config: t.Config, Session: id,
			Tenant: owner.Tenant, User: owner.User, Origin: string(opts.Origin), Labels: labels,
		},
	}
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
		err = s.end(ctx, t, sb)
	}
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		s.o.Log.Warn("a sandbox may be left behind by a failed create; the sweep will find it", "session", id, "error", err)
	}
}

// binds reports whether a sandbox is worth a binding: it has a name of its
// provider's, or a token that may be told only once.
func (s *Sessions) binds(t session.Target, sb backend.Sandbox) bool {
	return !t.Info.Has(backend.CapNames) || sb.Token != ""
}

// bind records which sandbox a session is.
func (s *Sessions) bind(ctx context.Context, t session.Target, sb backend.Sandbox) error {
	_, err := s.o.Store.Create(ctx, binding.Binding{
		Key: keyOf(sb.Metadata.Session), Provider: session.ProviderOf(t), Config: t.Config,
		Sandbox: sb.ID, Created: s.o.Now(), Token: sb.Token,
	})
	return err
}

// token is that of a sandbox that was found by its name: its provider may have told it
// once, and then the binding keeps it.
func (s *Sessions) token(ctx context.Context, t session.Target, id string, sb backend.Sandbox) (string, error) {
	if sb.Token != "" || !t.Info.Has(backend.CapTokenOnce) {
		return sb.Token, nil
	}
	b, bound, err := s.o.Store.Get(ctx, keyOf(id))
	if err != nil || !bound || !b.Names(session.ProviderOf(t), sb.ID) {
		return "", err
	}
	return b.Token, nil
}

// nameless finds a session at a provider that names sandboxes itself: by its
// binding, which saves a listing, and by its metadata when there is none.
func (s *Sessions) nameless(ctx context.Context, t session.Target, id string, f backend.ListFilter) ([]backend.Sandbox, error) {
	b, bound, err := s.o.Store.Get(ctx, keyOf(id))
	if err != nil {
		return nil, err
	}
	if bound && b.Provider == session.ProviderOf(t) && b.Config == t.Config {
		sb, err := t.Backend.Get(ctx, backend.Ref{Config: t.Config, ID: b.Sandbox})
		switch {
		case err == nil && f.Matches(sb):
			sb.Token = cmp.Or(sb.Token, b.Token) // descriptions need not hold it
			return []backend.Sandbox{sb}, nil
		case err != nil && !backend.ProvesGone(err):
			return nil, err
		}
		if _, err := s.o.Store.DeleteIfMatch(ctx, b.Key, b.Provider, b.Sandbox); err != nil {
			return nil, err
		}
		bound = false
	}
	found, err := t.Backend.List(ctx, f)
	found = slices.DeleteFunc(found, func(sb backend.Sandbox) bool { return !f.Matches(sb) })
	if err == nil && !bound && len(found) > 0 {
		err = s.bind(ctx, t, slices.MinFunc(found, session.Livelier))
	}
	return found, err
}
