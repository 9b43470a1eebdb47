package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// What is in this file makes, wakes and replaces nothing.

func random() string { return rand.Text() }

// Bound returns the provider's id of the session's sandbox, or ErrNoSandbox. The
// provider is not asked.
func (m *Manager) Bound(ctx context.Context, session string) (sandbox string, err error) {
	t, b, err := m.lookup(ctx, session)
	if err != nil {
		return "", err
	}
	t.Release()
	return b.Sandbox, nil
}

// Running returns nil when the provider confirms that the session's sandbox runs.
// It is ErrNoSandbox when nothing is bound, and otherwise ErrPaused, or ErrStopped
// with backends that never pause.
func (m *Manager) Running(ctx context.Context, session string) error {
	t, b, err := m.lookup(ctx, session)
	if err != nil {
		return err
	}
	defer t.Release()
	return running(ctx, t, backend.Ref{Config: t.Config, ID: b.Sandbox})
}

func running(ctx context.Context, t Target, ref backend.Ref) error {
	sb, err := t.Backend.Get(ctx, ref)
	switch {
	case err == nil && sb.State == backend.StateRunning:
		return nil
	case err != nil && !backend.ProvesGone(err):
		return fmt.Errorf("look at the session's sandbox: %w", err)
	case t.Info.Has(backend.CapPause):
		return ErrPaused
	default:
		return ErrStopped
	}
}

// KeepAlive moves the end of the session's sandbox away and returns when to do so
// again. With nothing bound, or nothing to refresh, that is 0 and no error.
func (m *Manager) KeepAlive(ctx context.Context, session string) (time.Duration, error) {
	return m.keepAlive(ctx, session, "")
}

// KeepAliveExpected is KeepAlive for a caller who means one sandbox: another one is
// left alone.
func (m *Manager) KeepAliveExpected(ctx context.Context, session, sandbox string) (time.Duration, error) {
	if sandbox == "" {
		return 0, errors.New("keep alive: no sandbox is named")
	}
	return m.keepAlive(ctx, session, sandbox)
}

func (m *Manager) keepAlive(ctx context.Context, session, expected string) (time.Duration, error) {
	t, b, err := m.lookup(ctx, session)
	if absent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer t.Release()
	k, ok := backend.Optional[backend.KeepAliver](t.Backend, t.Info)
	if !ok || expected != "" && b.Sandbox != expected {
		return 0, nil
	}
	until, err := k.KeepAlive(ctx, backend.Ref{Config: t.Config, ID: b.Sandbox}, m.o.KeepAlive)
	switch {
	case err != nil && backend.ProvesGone(err):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("keep the session's sandbox alive: %w", err)
	}
	wait := m.o.KeepAlive
	if left := until.Sub(m.o.Now()); !until.IsZero() && left < wait {
		wait = left // the provider allows less
	}
	return max(wait/3, time.Second), nil
}

// Terminal opens a terminal in the session's sandbox; spec.Ref is filled in. Unless
// wake is set, because a person asked for it, the sandbox has to be running. The
// terminal holds the plugin that serves it until Close.
func (m *Manager) Terminal(ctx context.Context, session string, spec backend.TerminalSpec, wake bool) (backend.Terminal, error) {
	t, b, err := m.lookup(ctx, session)
	if err != nil {
		return nil, err
	}
	spec.Ref = backend.Ref{Config: t.Config, ID: b.Sandbox}
	term, err := openTerminal(ctx, t, spec, b.Token, wake)
	if err != nil {
		t.Release()
		return nil, err
	}
	t.Lasts()
	return &terminal{Terminal: term, release: sync.OnceFunc(t.Release)}, nil
}

func openTerminal(ctx context.Context, t Target, spec backend.TerminalSpec, token string, wake bool) (backend.Terminal, error) {
	o, ok := backend.Optional[backend.TerminalOpener](t.Backend, t.Info)
	if !ok {
		return nil, fmt.Errorf("terminals: %w", ErrUnsupported)
	}
	if wake {
		_, err := t.Connect(ctx, spec.Ref, token)
		if err != nil && backend.ProvesGone(err) {
			return nil, ErrNoSandbox
		}
		if err != nil {
			return nil, fmt.Errorf("wake the session's sandbox: %w", err)
		}
	} else if err := running(ctx, t, spec.Ref); err != nil {
		return nil, err
	}
	return o.OpenTerminal(ctx, spec)
}

type terminal struct {
	backend.Terminal
	release func()
}

func (t *terminal) Close() error {
	defer t.release()
	return t.Terminal.Close()
}
