// Package session is what callers hold: a session, which is a sandbox. It has the
// words that all parts of session keeping share, and Manager, which binds
// sandboxes to sessions that an embedding program names. Sessions whose ids
// Caisson hands out are those of package minted.
//
// It does not know HTTP, languages or money.
package session

import (
	"context"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Origin says what made a session.
type Origin string

const (
	// OriginExec sessions were made by a run.
	OriginExec Origin = "exec"
	// OriginUpload sessions were made by an upload.
	OriginUpload Origin = "upload"
	// OriginStart sessions were started by a function and run by themselves.
	OriginStart Origin = "start"
	// OriginManaged sessions are those of a Manager.
	OriginManaged Origin = "managed"
)

// Owner is who asks, as established by admission.
type Owner struct {
	// Tenant owns sessions. Never empty.
	Tenant string
	// User within Tenant; empty when unknown.
	User string
	// KeyID is the service key that took part in admission, if any: sessions
	// made under a key may be used under the same key (docs/wire.md).
	KeyID string
}

// Target is a named config on the plugin generation that serves it now. It is
// held for the length of one call: Release lets a replaced generation drain.
type Target struct {
	// Config is the id the backend knows; backend.NoConfig for the default.
	Config string
	// Node is set for backends whose sandboxes live on this machine.
	Node    string
	Backend backend.Backend
	Info    backend.Info
	// Languages are what programs may be written in on this config, as far as is
	// known; Info has what the plugin can do at best.
	Languages []backend.LanguageSupport
	// Release is never nil and may be called more than once.
	Release func()
	// Pin is Lasts, nil where nothing is ever replaced.
	Pin func()
}

// Lasts turns the hold for one call into one that may last, such as a terminal's or a
// suspended program's: who replaces the plugin does not wait for it, and the
// generation that serves it lives until Release. It may be called more than once.
func (t Target) Lasts() {
	if t.Pin != nil {
		t.Pin()
	}
}

// Connect makes a sandbox ready for work. token is what is known to open it, where its
// provider tells that only once; it goes to no other backend.
func (t Target) Connect(ctx context.Context, ref backend.Ref, token string) (backend.Sandbox, error) {
	if c, ok := backend.Optional[backend.TokenConnector](t.Backend, t.Info); ok && token != "" {
		return c.ConnectToken(ctx, ref, token)
	}
	return t.Backend.Connect(ctx, ref)
}

// Targets finds named configs. host.Host implements it.
type Targets interface {
	// Default is where a tenant's new sessions go.
	Default(ctx context.Context, tenant string) (Target, error)
	// Named is a config by id as a tenant sees it, or ErrConfigNotFound. An
	// empty tenant sees all: ownership is then decided by metadata.
	Named(ctx context.Context, tenant, config string) (Target, error)
	// Configs lists the ids that Named knows for a tenant, the default first;
	// an empty tenant lists all.
	Configs(tenant string) []string
}

// Session is a handle for one call. It holds its target: call Release when the
// call is over.
type Session struct {
	ID string
	// Sandbox is as the provider described it last.
	Sandbox backend.Sandbox
	Target
}

// CreateOptions of a new session.
type CreateOptions struct {
	Origin Origin
	// Labels are stamped on the sandbox beside the session's own.
	Labels map[string]string
	// Network asks for more or less than the config's default.
	Network backend.Network
	// Payer pays for the time the sandbox is held; empty means nobody does.
	Payer string
	// Snapshot is what it starts from, with Env as its environment. Empty means the
	// config's default.
	Snapshot string
	Env      map[string]string
	// TTL ends the session this long after it was made, whether it is used or not, in
	// place of the deployment's clocks; 0 means those.
	TTL time.Duration
}

// Clocks of a deployment.
type Clocks struct {
	// TTL ends a session this long after it was made, whatever happens.
	TTL time.Duration
	// Idle ends a session that nothing touched for this long.
	Idle time.Duration
	// UnusedUpload ends an upload that no run has used.
	UnusedUpload time.Duration
	// Sweep is the time between two sweeps.
	Sweep time.Duration
}

// DefaultClocks are those of docs/operators.md.
func DefaultClocks() Clocks {
	return Clocks{TTL: 24 * time.Hour, Idle: time.Hour, UnusedUpload: time.Hour, Sweep: time.Minute}
}
