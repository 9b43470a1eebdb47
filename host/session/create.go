package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// create makes the session's sandbox and binds it. On failure nothing is left that
// is known to be nobody's.
func (c *change) create(ctx context.Context) (backend.Sandbox, error) {
	if err := c.exists(ctx); err != nil {
		return backend.Sandbox{}, err
	}
	start, err := c.m.o.Bootstrap.Override(ctx, c.key)
	if err != nil {
		return backend.Sandbox{}, fmt.Errorf("create session: what it starts from: %w", err)
	}
	if err := c.m.o.Meter.Open(ctx, c.key.Tenant, c.m.o.Payer); err != nil {
		return backend.Sandbox{}, fmt.Errorf("create session: %w", err)
	}
	spec, err := c.spec(start)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if err := c.own.Verify(ctx); err != nil {
		return backend.Sandbox{}, err
	}
	began := c.m.o.Now()
	sb, err := c.t.Backend.Create(ctx, spec)
	if err != nil {
		return c.failed(ctx, start, began, err)
	}
	if err := c.exists(ctx); err != nil {
		return backend.Sandbox{}, errors.Join(err, c.discard(sb))
	}
	_, plain := c.m.o.Bootstrap.(noBootstrap)
	template := spec.Template + spec.Snapshot
	got, err := c.bind(ctx, sb, template, plain)
	if err == nil && got.ID != sb.ID {
		_ = c.discard(sb) // nobody ever worked in it
	}
	if plain || err != nil || got.ID != sb.ID {
		return got, err
	}
	if err := c.m.o.Bootstrap.AfterCreate(ctx, c.key, c.t, sb); err != nil {
		return backend.Sandbox{}, errors.Join(fmt.Errorf("create session: prepare its sandbox: %w", err), c.undo(sb))
	}
	// The binding was stale until now, so that nobody who comes after a crash takes an
	// unprepared sandbox for a prepared one.
	if _, err := c.m.o.Store.DeleteIfMatch(ctx, c.key, ProviderOf(c.t), sb.ID); err != nil {
		return backend.Sandbox{}, err
	}
	return c.bind(ctx, sb, template, true)
}

// exists returns ErrDeleted for a session that is gone. Not to know is an error.
func (c *change) exists(ctx context.Context) error {
	ok, err := c.m.o.Exists.SessionExists(ctx, c.key)
	if err != nil {
		return fmt.Errorf("create session: does it exist: %w", err)
	}
	if !ok {
		return ErrDeleted
	}
	return nil
}

func (c *change) spec(start Start) (backend.CreateSpec, error) {
	o := c.m.o
	if start.Template != "" && start.Snapshot != "" {
		return backend.CreateSpec{}, errors.New("create session: it starts from a template or from a snapshot, not both")
	}
	if len(o.Sandbox.Volumes) > 0 && !c.t.Info.Has(backend.CapVolumes) {
		return backend.CreateSpec{}, fmt.Errorf("create session: volumes: %w", ErrUnsupported)
	}
	name := NameOf(o.Deployment, c.key)
	labels := maps.Clone(o.Sandbox.Labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	labels[LabelSession] = c.key.Session
	if o.Payer != "" {
		labels[LabelPayer] = o.Payer
	}
	spec := backend.CreateSpec{
		Config: c.t.Config, Session: name,
		Template: o.Sandbox.Template, Env: o.Sandbox.Env, Network: o.Sandbox.Network,
		Volumes: o.Sandbox.Volumes, Limits: o.Sandbox.Limits, Timeout: o.Sandbox.Timeout,
		Metadata: backend.Metadata{
			Deployment: o.Deployment, Config: c.t.Config, Session: name,
			Tenant: c.key.Tenant, User: o.User, Origin: string(OriginManaged), Labels: labels,
		},
	}
	switch {
	case start.Template != "":
		spec.Template = start.Template
	case start.Snapshot != "":
		// What a snapshot was made of is in it; a provider may refuse to be told again.
		spec.Template, spec.Snapshot, spec.Env = "", start.Snapshot, nil
	}
	return spec, nil
}

// failed looks after a Create that did not return a sandbox. Whether there is one
// all the same is not known, unless the error says that there cannot be.
func (c *change) failed(ctx context.Context, start Start, began time.Time, cause error) (backend.Sandbox, error) {
	if backend.KindOf(cause) == backend.KindConflict {
		// A listing may lag behind: the provider says that there is one already.
		if sb, err := c.recover(ctx); err == nil {
			return sb, nil
		}
	}
	err := fmt.Errorf("create session: %w", cause)
	if madeNothing(cause) {
		if start != (Start{}) {
			c.m.o.Bootstrap.OnCreateFailed(ctx, c.key, start, cause)
		}
		return backend.Sandbox{}, err
	}
	look, cancel := context.WithTimeout(c.own.Context(), cleanupTimeout)
	defer cancel()
	all, lookErr := c.mine(look)
	for _, sb := range all {
		// What a listing that lagged shows only now may be older, and in use.
		if sb.Created.IsZero() || !sb.Created.Before(began.Add(-clockSkew)) {
			lookErr = errors.Join(lookErr, c.delete(sb))
		}
	}
	if lookErr != nil {
		c.m.o.Log.Warn("a failed create may have left a sandbox to the reaper", "session", c.key.Session, "error", lookErr)
	}
	return backend.Sandbox{}, err
}

// madeNothing reports whether a failed Create proves that there is no sandbox.
func madeNothing(err error) bool {
	switch backend.KindOf(err) {
	case backend.KindInvalidRequest, backend.KindUnsupported, backend.KindAuthentication, backend.KindConflict, backend.KindCapacity, backend.KindNotFound:
		return true
	}
	return false
}

// discard deletes a sandbox that was never bound.
func (c *change) discard(sb backend.Sandbox) error {
	err := c.delete(sb)
	if err != nil {
		c.m.o.Log.Warn("an unbound sandbox is left to the reaper", "session", c.key.Session, "error", err)
	}
	return err
}

// undo deletes a sandbox that was bound and must not be used.
func (c *change) undo(sb backend.Sandbox) error {
	if err := c.delete(sb); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.own.Context(), cleanupTimeout)
	defer cancel()
	_, err := c.m.o.Store.DeleteIfMatch(ctx, c.key, ProviderOf(c.t), sb.ID)
	if err != nil {
		return fmt.Errorf("unbind a session: %w", err)
	}
	return nil
}

// Destroy ends the session's sandbox and everything in it, whether a binding names
// it or only the provider does. A session without one is success.
func (m *Manager) Destroy(ctx context.Context, session string) error {
	key, err := m.begin(session)
	if err != nil {
		return err
	}
	t, err := m.target(ctx)
	if err != nil {
		return err
	}
	defer t.Release()
	err = m.change(ctx, key, t, func(ctx context.Context, c *change) error { return c.destroy(ctx) })
	if err == nil && m.o.Forget != nil {
		m.o.Forget(ctx, key)
	}
	return err
}
