package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Run runs spec in the session's sandbox, which is made if need be; spec.Ref is
// filled in. See backend.Backend.Run: what becomes of the program is a result.
func (m *Manager) Run(ctx context.Context, session string, spec backend.RunSpec, io backend.RunIO) (backend.RunResult, error) {
	x, err := m.resolve(ctx, session)
	if err != nil {
		return backend.RunResult{}, err
	}
	defer x.Release()
	spec.Ref = x.sb.Ref
	if err := spec.Check(); err != nil {
		return backend.RunResult{}, err
	}
	return x.Backend.Run(ctx, spec, io)
}

// Exec runs one command in the session's sandbox, which is made if need be; req.Ref
// is filled in. A timeout is a result, with the output until then.
func (m *Manager) Exec(ctx context.Context, session string, req backend.ExecRequest) (backend.ExecResult, error) {
	x, err := m.resolve(ctx, session)
	if err != nil {
		return backend.ExecResult{}, err
	}
	defer x.Release()
	return exec(ctx, x.Target, x.sb.Ref, req)
}

func exec(ctx context.Context, t Target, ref backend.Ref, req backend.ExecRequest) (backend.ExecResult, error) {
	req.Ref = ref
	if err := req.Check(); err != nil {
		return backend.ExecResult{}, err
	}
	return t.Backend.Exec(ctx, req)
}

// Maintain runs one command in the sandbox that the caller means and in no other: it
// makes, wakes and replaces nothing. ErrChanged says that the session is proven to
// have another sandbox or none; any other error says nothing about that.
func (m *Manager) Maintain(ctx context.Context, session, sandbox string, req backend.ExecRequest) (backend.ExecResult, error) {
	t, b, err := m.lookup(ctx, session)
	if absent(err) {
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if err != nil {
		return backend.ExecResult{}, err
	}
	defer t.Release()
	if b.Sandbox != sandbox {
		return backend.ExecResult{}, ErrChanged
	}
	res, err := exec(ctx, t, backend.Ref{Config: t.Config, ID: sandbox}, req)
	if err != nil && backend.ProvesGone(err) {
		return res, fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return res, err
}

// Once runs spec in a sandbox of its own, which is deleted afterwards whatever
// happens, also when ctx ends. Its id is made up; spec.Ref is filled in.
func (m *Manager) Once(ctx context.Context, spec backend.RunSpec, io backend.RunIO) (res backend.RunResult, err error) {
	key, err := m.begin("once-" + random())
	if err != nil {
		return res, err
	}
	t, err := m.target(ctx)
	if err != nil {
		return res, err
	}
	defer t.Release()
	if err := m.o.Meter.Open(ctx, m.o.Tenant, m.o.Payer); err != nil {
		return res, err
	}
	// Nobody else knows the name, so there is nothing to agree on and nothing to bind:
	// should this process die, the reaper finds an unbound sandbox.
	c := &change{m: m, key: key, t: t}
	create, err := c.spec(Start{})
	if err != nil {
		return res, err
	}
	life := onceTime
	if spec.Limits.Wall > 0 {
		life = spec.Limits.Wall
	}
	life += onceSlack
	create.Metadata.Labels[LabelUntil] = m.o.Now().Add(life).UTC().Format(time.RFC3339)
	spec.Ref = backend.Ref{Config: t.Config, ID: "-"}
	if err := spec.Check(); err != nil {
		return res, err
	}
	sb, err := t.Backend.Create(ctx, create)
	if err == nil || !madeNothing(err) {
		made := err == nil
		defer func() {
			if left := c.sweepUp(ctx, sb, made); left != nil {
				m.o.Log.Warn("a sandbox for one run is left to the reaper", "error", left)
			}
		}()
	}
	if err != nil {
		return res, fmt.Errorf("create a sandbox for one run: %w", err)
	}
	spec.Ref = sb.Ref
	return t.Backend.Run(ctx, spec, io)
}

// sweepUp deletes the sandbox of one run. Where Create did not say whether there is
// one, it is looked for.
func (c *change) sweepUp(ctx context.Context, sb backend.Sandbox, made bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	all := []backend.Sandbox{sb}
	if !made {
		var err error
		if all, err = c.mine(ctx); err != nil {
			return err
		}
	}
	var errs []error
	for _, sb := range all {
		err := c.t.Backend.Delete(ctx, sb.Ref)
		if err == nil {
			c.m.o.Meter.Settle(ctx, HoldingOf(sb))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// BeginTurn opens a turn of the session: until end is called, at most its first
// resolve replaces a stale sandbox, and nobody rewinds the session. Turns may
// overlap; end closes this one only and may be called again. During a rewind it is
// binding.ErrRewindLocked.
func (m *Manager) BeginTurn(ctx context.Context, session string) (end func(), err error) {
	key, err := m.begin(session)
	if err != nil {
		return nil, err
	}
	turn, _, err := m.o.Store.BeginTurn(ctx, key, binding.Keep)
	if err != nil {
		return nil, err
	}
	return turn.End, nil
}

// Turns reports whether the session has an open turn, and whether background work
// is live in it.
func (m *Manager) Turns(ctx context.Context, session string) (turn, work bool, err error) {
	key, err := m.begin(session)
	if err != nil {
		return false, false, err
	}
	st, err := m.o.Store.State(ctx, key, binding.Keep)
	return st.Turns > 0, st.Work > 0, err
}

type rewindKey struct{}

// rewinds reports whether ctx is that of the session's rewind.
func rewinds(ctx context.Context, key binding.Key) bool {
	held, ok := ctx.Value(rewindKey{}).(binding.Key)
	return ok && held == key
}

// LockRewind keeps turns, background work and every other use out of a session
// while its files are set back. Do that with the returned context: it ends when the
// lock is lost. It is binding.ErrTurnActive, ErrWorkActive or ErrRewindLocked where
// one of these is in the way.
func (m *Manager) LockRewind(ctx context.Context, session string) (held context.Context, unlock func(), err error) {
	key, err := m.begin(session)
	if err != nil {
		return nil, nil, err
	}
	r, err := m.o.Store.LockRewind(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	return context.WithValue(r.Context(), rewindKey{}, key), r.Unlock, nil
}

// MarkStale has the sandboxes of the Manager's config replaced, each at the next
// resolve that may, because the config's image was replaced. It ends none and
// returns how many it marked that were not marked before.
func (m *Manager) MarkStale(ctx context.Context) (int, error) {
	if _, err := m.begin("-"); err != nil {
		return 0, err
	}
	return m.o.Store.MarkStale(ctx, m.o.Tenant, m.o.Config)
}
