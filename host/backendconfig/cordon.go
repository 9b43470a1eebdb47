package backendconfig

import (
	"context"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host/session"
)

// Cordons keeps work away from configs that are being changed. A cordon is a lease: it
// ends by itself, so that whoever dies while changing a config blocks it for moments
// and not for ever. Implementations are safe for concurrent use; those for several
// replicas keep cordons where all of them look.
type Cordons interface {
	// Hold cordons a config for holder until ttl from now, or renews its cordon. It is
	// false when somebody else holds it.
	Hold(ctx context.Context, config, holder string, ttl time.Duration) (bool, error)
	// Lift ends holder's cordon; it is a no-op when there is none.
	Lift(ctx context.Context, config, holder string) error
	// Cordoned reports whether anybody holds a cordon.
	Cordoned(ctx context.Context, config string) (bool, error)
	// Settle is how long after Hold it may take until everybody looks; 0 is at once.
	Settle() time.Duration
}

// Memory keeps the cordons of one process. The zero value is ready.
type Memory struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	mu   sync.Mutex
	held map[string]lease
}

type lease struct {
	holder string
	until  time.Time
}

func (m *Memory) now() time.Time {
	if m.Now != nil {
		return m.Now()
	}
	return time.Now()
}

// Hold implements Cordons.
func (m *Memory) Hold(ctx context.Context, config, holder string, ttl time.Duration) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if l, ok := m.held[config]; ok && l.holder != holder && now.Before(l.until) {
		return false, nil
	}
	if m.held == nil {
		m.held = make(map[string]lease)
	}
	m.held[config] = lease{holder, now.Add(ttl)}
	return true, nil
}

// Lift implements Cordons.
func (m *Memory) Lift(_ context.Context, config, holder string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[config].holder == holder {
		delete(m.held, config)
	}
	return nil
}

// Cordoned implements Cordons.
func (m *Memory) Cordoned(ctx context.Context, config string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l, ok := m.held[config]
	if ok && !m.now().Before(l.until) {
		delete(m.held, config)
		ok = false
	}
	return ok, nil
}

// Settle implements Cordons.
func (m *Memory) Settle() time.Duration { return 0 }

// Targets returns targets that are not found while they are cordoned:
// session.ErrConfigCordoned says that the same call may succeed in a moment. When
// nobody can say whether a config is cordoned, it is taken to be.
func Targets(next session.Targets, cordons Cordons) session.Targets {
	return cordoned{next, cordons}
}

type cordoned struct {
	session.Targets
	cordons Cordons
}

// Named implements session.Targets. Without a tenant it is the deployment itself that
// asks, to list and to end: that goes on.
func (c cordoned) Named(ctx context.Context, tenant, config string) (session.Target, error) {
	t, err := c.Targets.Named(ctx, tenant, config)
	if err != nil || tenant == "" {
		return t, err
	}
	return c.pass(ctx, t)
}

// Default implements session.Targets.
func (c cordoned) Default(ctx context.Context, tenant string) (session.Target, error) {
	t, err := c.Targets.Default(ctx, tenant)
	if err != nil {
		return t, err
	}
	return c.pass(ctx, t)
}

func (c cordoned) pass(ctx context.Context, t session.Target) (session.Target, error) {
	held, err := c.cordons.Cordoned(ctx, t.Config)
	if err != nil || held {
		t.Release()
		if ctx.Err() != nil {
			return session.Target{}, ctx.Err()
		}
		return session.Target{}, session.ErrConfigCordoned
	}
	return t, nil
}
