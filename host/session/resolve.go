package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
)

// resolved is a session's sandbox, ready for work, for the length of one call.
type resolved struct {
	Target
	sb backend.Sandbox
}

// resolve finds the session's sandbox and makes it ready for work, or makes one.
// The caller releases it.
//
// Nearly always that is one step of the store and one Connect, without a lock: a
// sandbox is only ever replaced under the lock and on proof, so whatever is bound
// and answers is the right one.
func (m *Manager) resolve(ctx context.Context, session string) (resolved, error) {
	key, err := m.begin(session)
	if err != nil {
		return resolved{}, err
	}
	st, err := m.o.Store.State(ctx, key, binding.Spend)
	if err != nil {
		return resolved{}, err
	}
	if st.Rewinding && !rewinds(ctx, key) {
		return resolved{}, binding.ErrRewindLocked
	}
	t, err := m.target(ctx)
	if err != nil {
		return resolved{}, err
	}
	rebuild := st.MayRebuild()
	if st.Bound && m.serves(t, st.Binding) && (st.Binding.Stale.IsZero() || !rebuild && !unfinished(st.Binding)) {
		sb, err := m.connect(ctx, t, st.Binding)
		if err == nil {
			return resolved{t, sb}, nil
		}
		if !backend.ProvesGone(err) {
			t.Release()
			return resolved{}, err
		}
	}
	var sb backend.Sandbox
	err = m.change(ctx, key, t, func(ctx context.Context, c *change) (err error) {
		sb, err = c.provide(ctx, rebuild)
		return err
	})
	if err != nil {
		t.Release()
		return resolved{}, err
	}
	return resolved{t, sb}, nil
}

// serves reports whether t is the config, plugin and node of a binding.
func (m *Manager) serves(t Target, b binding.Binding) bool {
	return b.Provider == ProviderOf(t) && (b.Config == t.Config || b.Config == "")
}

// elsewhere reports whether a binding's sandbox lives with the same plugin on
// another node: this one cannot say anything about it.
func elsewhere(t Target, b binding.Binding) bool {
	return b.Provider != ProviderOf(t) && plugin(b.Provider) == t.Info.Name && b.Config == t.Config
}

// connect makes a bound sandbox ready for work. A provider may issue a new token
// when it does.
func (m *Manager) connect(ctx context.Context, t Target, b binding.Binding) (backend.Sandbox, error) {
	sb, err := t.Connect(ctx, backend.Ref{Config: t.Config, ID: b.Sandbox}, b.Token)
	if err != nil {
		return backend.Sandbox{}, fmt.Errorf("connect the session's sandbox: %w", err)
	}
	if sb.Token != "" && sb.Token != b.Token {
		if _, err := m.o.Store.ReplaceToken(ctx, b.Key, b.Provider, b.Sandbox, sb.Token); err != nil {
			return backend.Sandbox{}, err
		}
	}
	return sb, nil
}

// lookup finds the sandbox that is bound, without making, waking or replacing
// anything. ErrNoSandbox says that there is none. The caller releases it.
func (m *Manager) lookup(ctx context.Context, session string) (Target, binding.Binding, error) {
	key, err := m.begin(session)
	if err != nil {
		return Target{}, binding.Binding{}, err
	}
	st, err := m.o.Store.State(ctx, key, binding.Keep)
	if err != nil {
		return Target{}, binding.Binding{}, err
	}
	if !st.Bound {
		return Target{}, binding.Binding{}, ErrNoSandbox
	}
	t, err := m.target(ctx)
	if err != nil {
		return Target{}, binding.Binding{}, err
	}
	switch {
	case m.serves(t, st.Binding):
		return t, st.Binding, nil
	case elsewhere(t, st.Binding):
		err = ErrElsewhere
	default:
		err = ErrNoSandbox // of this config
	}
	t.Release()
	return Target{}, binding.Binding{}, err
}

// absent reports whether err says that a lookup found nothing.
func absent(err error) bool { return errors.Is(err, ErrNoSandbox) }
