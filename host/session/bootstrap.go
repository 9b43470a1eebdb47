package session

import (
	"context"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Start says what one session's sandbox starts from, in place of the Manager's
// template. At most one is set; the zero value overrides nothing.
type Start struct{ Template, Snapshot string }

// Bootstrapper customises how single sessions get their sandbox: a fork starts
// from a snapshot of its parent. Its methods are called under the session's lock.
// They must not call the Manager for the same session, which would wait for that
// lock; they use the sandbox that they are given.
type Bootstrapper interface {
	// Override says what the sandbox starts from. An error aborts the creation: not
	// to know is not "no override", or a fork would silently start empty.
	Override(ctx context.Context, key binding.Key) (Start, error)
	// AfterCreate is called once a new sandbox is bound. An error destroys the
	// sandbox and its binding: half a fork looks like a whole one.
	AfterCreate(ctx context.Context, key binding.Key, t Target, sb backend.Sandbox) error
	// OnCreateFailed is called when a sandbox with an override could not be made, so
	// that a snapshot which no longer exists is retired instead of being tried for
	// ever.
	OnCreateFailed(ctx context.Context, key binding.Key, start Start, err error)
}

type noBootstrap struct{}

func (noBootstrap) Override(context.Context, binding.Key) (Start, error) { return Start{}, nil }

func (noBootstrap) AfterCreate(context.Context, binding.Key, Target, backend.Sandbox) error {
	return nil
}

func (noBootstrap) OnCreateFailed(context.Context, binding.Key, Start, error) {}

// Holding is one sandbox that is held for somebody.
type Holding struct {
	// ID is unique among holdings: settling one twice counts once.
	ID string
	// Tenant, User, Session and Payer say whose it is; User and Payer may be empty.
	Tenant, User, Session, Payer string
	// Since is when it was made, zero when the provider does not say.
	Since time.Time
}

// HoldingOf describes a sandbox by its metadata. Its ID is made of what the
// provider says about it, so that every replica makes the same.
func HoldingOf(sb backend.Sandbox) Holding {
	m := sb.Metadata
	h := Holding{
		ID: "lease-" + sb.Config + "-" + sb.ID + "-" + sb.Created.UTC().Format("20060102T150405.000"), Tenant: m.Tenant, User: m.User,
		Session: m.Session, Payer: m.Labels[LabelPayer], Since: sb.Created,
	}
	if s := m.Labels[LabelSession]; s != "" {
		h.Session = s
	}
	return h
}

// Meter counts the time for which sandboxes are held, apart from runs.
type Meter interface {
	// Open is asked before a sandbox is made; an error refuses it.
	Open(ctx context.Context, tenant, payer string) error
	// Settle counts a holding that has ended, or is about to. It is called at least
	// once for each, and must count it once.
	Settle(ctx context.Context, h Holding)
}

type noMeter struct{}

func (noMeter) Open(context.Context, string, string) error { return nil }
func (noMeter) Settle(context.Context, Holding)            {}
