package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
)

// change is what happens to one session under its lifecycle lock: a sandbox is
// found, made, replaced or destroyed. Destructive steps run on the ownership's
// context and prove the ownership right before; so they go on when the caller goes
// away and stop when the lock is lost.
type change struct {
	m   *Manager
	key binding.Key
	t   Target
	own *binding.Ownership
}

// change calls f under the session's lock. Ownership that was lost meanwhile, as when
// the store was emptied, is looked at once more: f then begins again under a lock of its
// own and reads everything again, what it left behind the first time included.
func (m *Manager) change(ctx context.Context, key binding.Key, t Target, f func(context.Context, *change) error) error {
	locked := func() error {
		return m.o.Store.WithLifecycleLock(ctx, key, func(ctx context.Context, own *binding.Ownership) error {
			return f(ctx, &change{m: m, key: key, t: t, own: own})
		})
	}
	err := locked()
	if errors.Is(err, binding.ErrOwnershipLost) && ctx.Err() == nil {
		err = locked()
	}
	return err
}

// provide returns the session's sandbox. Everything is read again: what was known
// before the lock may be old.
func (c *change) provide(ctx context.Context, rebuild bool) (backend.Sandbox, error) {
	st, err := c.m.o.Store.State(ctx, c.key, binding.Keep)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if st.Rewinding && !rewinds(ctx, c.key) {
		return backend.Sandbox{}, binding.ErrRewindLocked
	}
	if st.Bound {
		sb, err := c.keep(ctx, st, rebuild)
		if err == nil || !errors.Is(err, errUnbound) {
			return sb, err
		}
	}
	sb, err := c.recover(ctx)
	if err == nil || !errors.Is(err, ErrNoSandbox) {
		return sb, err
	}
	return c.create(ctx)
}

// errUnbound: the binding was in the way and is gone.
var errUnbound = errors.New("unbound")

// keep returns the bound sandbox, or takes the binding away for one of three
// reasons: it is another config's, it is stale, or the provider says that its
// sandbox is gone.
func (c *change) keep(ctx context.Context, st binding.State, rebuild bool) (backend.Sandbox, error) {
	b := st.Binding
	if !c.m.serves(c.t, b) {
		if elsewhere(c.t, b) {
			return backend.Sandbox{}, ErrElsewhere
		}
		// Its sandbox is none of this client's business; the reaper of its own config
		// will find it.
		return backend.Sandbox{}, c.unbind(ctx, b)
	}
	ref := backend.Ref{Config: c.t.Config, ID: b.Sandbox}
	if unfinished(b) || (!b.Stale.IsZero() && rebuild && st.Work == 0) {
		sb, err := c.t.Backend.Get(ctx, ref)
		if err != nil && !backend.ProvesGone(err) {
			return backend.Sandbox{}, fmt.Errorf("replace the session's stale sandbox: %w", err)
		}
		if err == nil {
			if err := c.delete(sb); err != nil {
				return backend.Sandbox{}, err
			}
		}
		return backend.Sandbox{}, c.unbind(ctx, b)
	}
	sb, err := c.m.connect(ctx, c.t, b)
	if err != nil && backend.ProvesGone(err) {
		return backend.Sandbox{}, c.unbind(ctx, b)
	}
	return sb, err
}

// unfinished reports whether b was made for a sandbox that AfterCreate has not been
// through (see create): it is stale from the start, which no mark makes it.
func unfinished(b binding.Binding) bool { return !b.Stale.IsZero() && !b.Stale.After(b.Created) }

// unbind deletes a binding and returns errUnbound.
func (c *change) unbind(ctx context.Context, b binding.Binding) error {
	if _, err := c.m.o.Store.DeleteIfMatch(ctx, c.key, b.Provider, b.Sandbox); err != nil {
		return err
	}
	return errUnbound
}

// delete ends a sandbox. Only the proven owner of the lock does.
func (c *change) delete(sb backend.Sandbox) error {
	ctx, cancel := context.WithTimeout(c.own.Context(), cleanupTimeout)
	defer cancel()
	if err := c.own.Verify(ctx); err != nil {
		return err
	}
	if err := c.t.Backend.Delete(ctx, sb.Ref); err != nil {
		return fmt.Errorf("delete a sandbox of the session: %w", err)
	}
	c.m.o.Meter.Settle(ctx, HoldingOf(sb))
	return nil
}

// mine lists the session's live sandboxes, the livelier first. What does not carry
// the session's metadata is passed over, whatever the provider was asked.
func (c *change) mine(ctx context.Context) ([]backend.Sandbox, error) {
	f := backend.ListFilter{
		Config: c.t.Config, Deployment: c.m.o.Deployment, Tenant: c.key.Tenant,
		Session: NameOf(c.m.o.Deployment, c.key), Labels: map[string]string{LabelSession: c.key.Session},
	}
	var all []backend.Sandbox
	var err error
	switch {
	case !c.t.Info.Has(backend.CapMetadata):
		return nil, nil
	case c.t.Info.Has(backend.CapNames):
		var sb backend.Sandbox
		sb, err = c.t.Backend.Get(ctx, backend.Ref{Config: c.t.Config, ID: f.Session})
		if err == nil {
			all = append(all, sb)
		} else if backend.ProvesGone(err) {
			err = nil
		}
	case c.t.Info.Has(backend.CapList):
		all, err = c.t.Backend.List(ctx, f)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the session's sandbox: %w", err)
	}
	all = slices.DeleteFunc(all, func(sb backend.Sandbox) bool { return !f.Matches(sb) })
	slices.SortFunc(all, Livelier)
	return all, nil
}

// recover binds a sandbox that the session has although no binding says so. It deletes
// none: should there be others, they may have been in use a moment ago, and the reaper
// gives them its grace. It returns ErrNoSandbox when the provider knows none.
func (c *change) recover(ctx context.Context) (backend.Sandbox, error) {
	all, err := c.mine(ctx)
	if err != nil {
		return backend.Sandbox{}, err
	}
	for i, candidate := range all {
		sb, err := c.t.Connect(ctx, candidate.Ref, candidate.Token)
		if err != nil {
			if backend.ProvesGone(err) {
				continue
			}
			return backend.Sandbox{}, fmt.Errorf("connect the session's sandbox: %w", err)
		}
		if sb, err = c.bind(ctx, sb, "", true); err == nil && i+1 < len(all) {
			c.m.o.Log.Warn("a session had several sandboxes and no binding: it has the liveliest now, the others are left to the reaper",
				"session", c.key.Session, "sandbox", sb.ID, "others", len(all)-i-1)
		}
		return sb, err
	}
	return backend.Sandbox{}, ErrNoSandbox
}

// bind writes the binding of sb, which is unfinished or not. Where another sandbox
// turns out to be bound, that one is right and is returned; what becomes of sb is the
// caller's to decide.
func (c *change) bind(ctx context.Context, sb backend.Sandbox, template string, finished bool) (backend.Sandbox, error) {
	b := binding.Binding{
		Key: c.key, Provider: ProviderOf(c.t), Config: c.t.Config, Sandbox: sb.ID,
		Template: template, Created: c.m.o.Now(), Token: sb.Token,
	}
	if !finished {
		b.Stale = b.Created
	}
	ok, err := c.m.o.Store.Create(ctx, b)
	if err != nil {
		// Whether it was written is not known. The sandbox stays: it is found again by
		// its metadata, or reaped.
		return backend.Sandbox{}, err
	}
	if ok {
		return sb, nil
	}
	winner, bound, err := c.m.o.Store.Get(ctx, c.key)
	switch {
	case err != nil:
		return backend.Sandbox{}, err
	case !bound || !c.m.serves(c.t, winner):
		return backend.Sandbox{}, fmt.Errorf("bind the session's sandbox: %w", binding.ErrOwnershipLost)
	}
	return c.m.connect(ctx, c.t, winner)
}

// destroy ends every sandbox of the session, and then its binding.
func (c *change) destroy(ctx context.Context) error {
	st, err := c.m.o.Store.State(ctx, c.key, binding.Keep)
	if err != nil {
		return err
	}
	if st.Rewinding && !rewinds(ctx, c.key) {
		return binding.ErrRewindLocked
	}
	ours := st.Bound && c.m.serves(c.t, st.Binding)
	if st.Bound && elsewhere(c.t, st.Binding) {
		return ErrElsewhere
	}
	all, err := c.mine(ctx)
	if err != nil {
		return err
	}
	if ours && !slices.ContainsFunc(all, func(sb backend.Sandbox) bool { return sb.ID == st.Binding.Sandbox }) {
		sb, err := c.t.Backend.Get(ctx, backend.Ref{Config: c.t.Config, ID: st.Binding.Sandbox})
		if err != nil && !backend.ProvesGone(err) {
			return fmt.Errorf("destroy session: %w", err)
		}
		if err == nil {
			all = append(all, sb)
		}
	}
	for _, sb := range all {
		if err := c.delete(sb); err != nil {
			return err
		}
	}
	if st.Bound {
		if err := c.unbind(ctx, st.Binding); !errors.Is(err, errUnbound) {
			return err
		}
	}
	return nil
}
