package envd

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// call is one thing to do in a sandbox.
type call struct {
	op      string
	id      string
	subject backend.Subject
	// again says that doing it twice is like doing it once. What never reached the
	// sandbox is tried again in any case.
	again bool
	// spent says that it cannot be tried again after all; nil is never.
	spent func() bool
}

// patience is how long a call is tried again while the control plane says that the
// sandbox runs.
const patience = 5 * time.Second

// do carries out a call. When the gateway refuses it or does not reach the sandbox,
// it asks the control plane, whose word is final: the sandbox is gone or sleeps, its
// tokens are others now, or it runs and the call may be tried again.
func (c *Client) do(ctx context.Context, q call, f func(ctx context.Context, b *box) error) error {
	until := time.Now().Add(patience)
	refreshed := false
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		b, err := c.box(ctx, q.op, q.id)
		if err != nil {
			return err
		}
		raw := f(ctx, b)
		if raw == nil {
			return nil
		}
		err = c.explain(ctx, q.op, q.subject, b, raw)
		var e *backend.Error
		if ctx.Err() != nil || !errors.As(err, &e) {
			return err
		}
		reply, answered := reply(raw)
		lost := e.Kind == backend.KindUnavailable || e.Kind == backend.KindTerminal || answered && reply.NotRouted()
		if !lost && e.Kind != backend.KindAuthentication || e.Plane == backend.PlaneControl {
			return err
		}
		changed, lerr := c.locate(ctx, q.op, q.id)
		switch {
		case lerr != nil && (backend.ProvesGone(lerr) || backend.KindOf(lerr) == backend.KindConflict):
			return lerr
		case lerr != nil:
			return err
		case !lost:
			if !changed || refreshed || q.spent != nil && q.spent() {
				return err
			}
			refreshed = true
			continue
		}
		if e.Kind == backend.KindTerminal {
			e.Kind = backend.KindUnavailable // the control plane says that it runs
		}
		c.Refresh()
		if !q.again && !(answered && reply.NotRouted()) || q.spent != nil && q.spent() {
			return err
		}
		wait = max(wait, e.RetryAfter)
		if time.Now().Add(wait).After(until) {
			return err
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func reply(err error) (*fault.Reply, bool) {
	var r *fault.Reply
	ok := errors.As(err, &r)
	return r, ok
}

// explain makes an error of the contract out of whatever a call failed with.
func (c *Client) explain(ctx context.Context, op string, subject backend.Subject, b *box, err error) error {
	var e *backend.Error
	if errors.As(err, &e) {
		return err
	}
	err = fault.RPC(ctx, c.opts.Provider, op, subject, err)
	if errors.As(err, &e) {
		e.Message = b.endpoint.redact(e.Message)
	}
	return err
}

// redact takes the secrets out of what somebody else said: servers send back what
// they were sent.
func (e Endpoint) redact(s string) string {
	for _, secret := range []string{e.AccessToken, e.TrafficToken} {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[secret]")
		}
	}
	return s
}
