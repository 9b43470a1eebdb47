package remote

import (
	"context"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// backoffs are the waits between attempts to wake a sandbox that does not stay awake;
// pollTime is how long a transition may take, looked at every pollEvery.
var backoffs = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}

const (
	pollTime  = 120 * time.Second
	pollEvery = 500 * time.Millisecond
)

// Connect implements backend.Backend. Whose the sandbox is, is known before anything
// is done to it.
func (b *Backend) Connect(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	return b.connect(ctx, ref, "")
}

func (b *Backend) connect(ctx context.Context, ref backend.Ref, token string) (backend.Sandbox, error) {
	const op = "Connect"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if !c.Dialect.ValidID(ref.ID) {
		return backend.Sandbox{}, c.absent(op)
	}
	if !headerValue(token) {
		return backend.Sandbox{}, b.fail(op, backend.KindInvalidRequest, "token: what is handed back is none of this provider's")
	}
	asleep := false
	if _, ok := c.recall(ref.ID); !ok || c.traits.SlowPause {
		// Resuming while the pause goes on gets stuck with some providers.
		sb, err := c.settled(ctx, op, ref.ID)
		if err != nil {
			return backend.Sandbox{}, err
		}
		asleep = sb.State != backend.StateRunning
	}
	return c.wake(ctx, op, ref.ID, token, asleep)
}

// wake connects until the sandbox runs and stays so. One that was asleep, or whose token
// is handed back and not known, is looked at from within too; others cost nothing more.
func (c *config) wake(ctx context.Context, op, id, token string, asleep bool) (backend.Sandbox, error) {
	k, _ := c.recall(id)
	ttl := c.Dialect.TTL(k.policy)
	for attempt := 0; ; attempt++ {
		woken, resumed, err := c.API.Wake(ctx, &c.connect, op, c.named(id), ttl)
		asleep = asleep || resumed
		if err == nil {
			err = c.data.Bind(id, c.endpoint(woken))
		}
		if err == nil && c.traits.TokenOnce && woken.TrafficAccessToken != "" { // some versions tell it again
			token = ""
			err = c.keepToken(op, id, woken.TrafficAccessToken)
		}
		if err != nil && backend.KindOf(err) != backend.KindConflict {
			return backend.Sandbox{}, c.confirm(ctx, op, id, err)
		}
		sb, lookErr := c.get(ctx, op, id)
		switch {
		case lookErr != nil && !gone(lookErr):
			return backend.Sandbox{}, lookErr
		case lookErr != nil && err != nil:
			return backend.Sandbox{}, lookErr // both say so
		case lookErr == nil && err == nil && sb.State == backend.StateRunning:
			if asleep {
				c.data.Refresh() // connections made before may lead to what the sandbox was
			}
			proven, err := c.handBack(ctx, op, id, token)
			if err == nil && asleep && !proven {
				err = c.ready(ctx, id)
			}
			if err != nil {
				return backend.Sandbox{}, err
			}
			e, _ := c.data.Endpoint(id)
			sb.Token = e.TrafficToken // descriptions do not hold it
			return sb, nil
		}
		asleep = true
		if attempt == len(backoffs) {
			if err == nil {
				err = c.b.fail(op, backend.KindUnavailable, "the sandbox was woken and is %s again", sb.State)
			}
			return backend.Sandbox{}, err
		}
		if err := c.API.Sleep(ctx, backoffs[attempt]); err != nil {
			return backend.Sandbox{}, err
		}
	}
}

// confirm decides what a failed call about a sandbox means: that it is gone is
// believed when describing it says so too.
func (c *config) confirm(ctx context.Context, op, id string, err error) error {
	switch backend.KindOf(err) {
	case backend.KindNotFound, backend.KindTerminal, backend.KindUnsupported:
	default:
		return err
	}
	if ctx.Err() != nil {
		return err
	}
	sb, lookErr := c.get(ctx, op, id)
	switch {
	case lookErr != nil:
		return lookErr
	case backend.KindOf(err) == backend.KindUnsupported:
		return err // the provider cannot do it, and the sandbox is there
	case sb.State == backend.StatePaused || sb.State == backend.StateTransitioning:
		e := c.b.fail(op, backend.KindConflict, "the sandbox is %s", sb.State)
		e.Subject = backend.SubjectSandbox
		return e
	}
	return c.b.fail(op, backend.KindUnavailable, "the provider says both that the sandbox exists and that it does not")
}

// settled waits until a sandbox is not between two states any more.
func (c *config) settled(ctx context.Context, op, id string) (backend.Sandbox, error) {
	for waited := time.Duration(0); ; waited += pollEvery {
		sb, err := c.get(ctx, op, id)
		if err != nil || sb.State != backend.StateTransitioning {
			return sb, err
		}
		if waited >= pollTime {
			e := c.b.fail(op, backend.KindConflict, "the sandbox is %s since %v", sb.RawState, pollTime)
			e.Subject = backend.SubjectSandbox
			return sb, e
		}
		if err := c.API.Sleep(ctx, pollEvery); err != nil {
			return sb, err
		}
	}
}

// Delete implements backend.Backend.
func (b *Backend) Delete(ctx context.Context, ref backend.Ref) error {
	const op = "Delete"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.Dialect.ValidID(ref.ID) {
		return nil
	}
	if _, ok := c.recall(ref.ID); !ok { // it may be another config's
		if _, err := c.get(ctx, op, ref.ID); gone(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return c.end(ctx, op, ref.ID)
}

// end deletes a sandbox; one that is gone is fine. Some providers cannot delete a
// paused one, which is then woken once, to be ended.
func (c *config) end(ctx context.Context, op, id string) error {
	err := c.API.Kill(ctx, op, c.named(id))
	if err != nil {
		err = c.ended(ctx, op, id, err)
	}
	if err != nil && c.traits.SlowPause && ctx.Err() == nil {
		sb, lookErr := c.get(ctx, op, id)
		if lookErr == nil && sb.State == backend.StatePaused {
			if _, _, wakeErr := c.API.Wake(ctx, &c.connect, op, c.named(id), time.Minute); wakeErr == nil {
				err = c.API.Kill(ctx, op, c.named(id))
			}
		}
	}
	if gone(err) {
		err = nil
	}
	if err == nil {
		c.forget(id)
	}
	return err
}

// ended turns a failed deletion into success when the sandbox is gone.
func (c *config) ended(ctx context.Context, op, id string, err error) error {
	if gone(err) {
		return nil
	}
	if backend.KindOf(err) == backend.KindUnsupported && ctx.Err() == nil {
		if _, lookErr := c.get(ctx, op, id); gone(lookErr) {
			return nil
		}
	}
	return err
}

// Pause implements backend.Pauser.
func (b *Backend) Pause(ctx context.Context, ref backend.Ref) error {
	const op = "Pause"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return err
	}
	sb, err := c.get(ctx, op, ref.ID)
	if err != nil || sb.State == backend.StatePaused {
		return err
	}
	err = c.API.Pause(ctx, op, c.named(ref.ID))
	if err != nil && ctx.Err() == nil {
		// It may be paused already, or be pausing.
		after, lookErr := c.get(ctx, op, ref.ID)
		switch {
		case gone(lookErr):
			return lookErr
		case lookErr == nil && after.State == backend.StatePaused:
			err = nil
		case gone(err):
			return c.confirm(ctx, op, ref.ID, err)
		case backend.KindOf(err) == backend.KindConflict && c.traits.SlowPause && after.State == backend.StateTransitioning:
			err = nil
		}
	}
	if err != nil {
		return err
	}
	c.data.Refresh()
	if !c.traits.SlowPause {
		return nil
	}
	return c.parked(ctx, op, ref.ID)
}

// parked waits until a pause that was answered has happened.
func (c *config) parked(ctx context.Context, op, id string) error {
	for waited := time.Duration(0); ; waited += pollEvery {
		sb, err := c.get(ctx, op, id)
		if err != nil || sb.State == backend.StatePaused {
			return err
		}
		if waited >= pollTime {
			return c.b.fail(op, backend.KindTimeout, "the sandbox is still %s after %v", sb.RawState, pollTime)
		}
		if err := c.API.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// KeepAlive implements backend.KeepAliver. It never makes a sandbox's time shorter.
func (b *Backend) KeepAlive(ctx context.Context, ref backend.Ref, ttl time.Duration) (time.Time, error) {
	const op = "KeepAlive"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return time.Time{}, err
	}
	sb, err := c.get(ctx, op, ref.ID)
	if err != nil {
		return time.Time{}, err
	}
	if sb.State != backend.StateRunning {
		e := b.fail(op, backend.KindConflict, "the sandbox is %s: connect to it first", sb.State)
		e.Subject = backend.SubjectSandbox
		return time.Time{}, e
	}
	now := b.p.Now()
	if c.traits.IdleTTL {
		// The new value replaces the old for good, so the longer of both is set.
		k, _ := c.recall(ref.ID)
		if own := c.Dialect.TTL(k.policy); own < 0 || own > ttl {
			ttl = own
		}
	} else if sb.Expires.After(now.Add(ttl)) {
		return sb.Expires, nil
	}
	if err := c.API.SetTimeout(ctx, op, c.named(ref.ID), ttl); err != nil {
		return time.Time{}, c.confirm(ctx, op, ref.ID, err)
	}
	if ttl < 0 {
		return time.Time{}, nil
	}
	after, err := c.get(ctx, op, ref.ID) // the provider may have given less
	if err != nil {
		return time.Time{}, err
	}
	if after.Expires.IsZero() {
		return now.Add(ttl), nil
	}
	return after.Expires, nil
}
