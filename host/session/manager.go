package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/workspace"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// LabelSession is the metadata label that holds the embedder's name of a managed
// session. Sandboxes with it are a Manager's; their clocks are the embedder's.
const LabelSession = "caisson.session"

// LabelUntil is the metadata label of sandboxes for one run: until then (RFC 3339)
// nobody takes them for forgotten ones, and afterwards everybody does.
const LabelUntil = "caisson.until"

// LabelPayer is the metadata label that holds who pays for held time.
const LabelPayer = "caisson.payer"

// Times that are nobody's setting.
const (
	// cleanupTimeout bounds work that must outlive a cancelled request.
	cleanupTimeout = 30 * time.Second
	// clockSkew is how far the clocks of provider and host may be apart when the age of
	// a sandbox decides whether it is deleted.
	clockSkew = time.Minute
	// defaultKeepAlive is how long a kept sandbox may live without another refresh.
	defaultKeepAlive = 10 * time.Minute
	// onceTime is what a sandbox for one run may take whose run has no limit of its
	// own, onceSlack what making it and collecting from it may take besides.
	onceTime  = time.Hour
	onceSlack = 10 * time.Minute
)

// Existence tells whether a session that an embedder names still exists.
type Existence interface {
	// SessionExists is asked before and after a sandbox is made, by tenant and
	// session, under the session's lock. An error means that it is not known, and
	// nothing is made.
	SessionExists(ctx context.Context, key binding.Key) (bool, error)
}

// AlwaysExists is Existence for programs in which Destroy is the only end of a
// session. It is refused with a store that other replicas share: a session deleted
// on one of them would get sandboxes from the others for ever.
type AlwaysExists struct{}

// SessionExists implements Existence.
func (AlwaysExists) SessionExists(context.Context, binding.Key) (bool, error) { return true, nil }

// Sandbox says what a managed session's sandbox is made of.
type Sandbox struct {
	// Template is what it starts from; empty means the config's default.
	Template string
	// Env, Network, Volumes and Limits are as in backend.CreateSpec. Volumes are
	// mounted when the sandbox is made or never.
	Env     map[string]string
	Network backend.Network
	Volumes []backend.VolumeMount
	Limits  backend.Limits
	// Timeout says when the provider acts by itself. The zero value leaves it to the
	// config. A policy that the provider cannot keep is an error when the sandbox is
	// made.
	Timeout backend.TimeoutPolicy
	// Labels are stamped on it. Names that begin with "caisson." are refused.
	Labels map[string]string
}

// ManagerOptions of NewManager. Tenant, Config, Targets, Store and Exists are
// required.
type ManagerOptions struct {
	// Tenant owns the sessions, Config is the named config of their sandboxes.
	Tenant, Config string
	// User and Payer are stamped on new sandboxes: who works there, and who pays
	// for the time it is held. Both may be empty.
	User, Payer string
	Targets     Targets
	Store       *binding.Store
	// Deployment is stamped on every sandbox and told apart in every listing.
	Deployment string
	Exists     Existence
	// Bootstrap customises single sessions; nil customises none.
	Bootstrap Bootstrapper
	// Sandbox is what sandboxes are made of.
	Sandbox Sandbox
	// Layout is where a session's files are; the zero value is workspace.Session.
	Layout workspace.Layout
	// KeepAlive is how long KeepAlive keeps a sandbox, 0 means 10 minutes.
	KeepAlive time.Duration
	// Meter counts held time; nil counts none.
	Meter Meter
	// Forget, if set, is told that a session was destroyed, so that what belongs to
	// it elsewhere (approvals, jobs) does not come back with a session of that name.
	Forget func(ctx context.Context, key binding.Key)
	Log    hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Manager binds one sandbox to each session that an embedder names, within one
// tenant and one named config. The sandbox is made when work first needs it, found
// again by its metadata when the binding was lost, and replaced only on the
// provider's word that it is gone.
//
// A Manager holds no state that matters: it is cheap, may be made for each request,
// and any number of them agree, in one process or in many, through the binding
// store. It is safe for concurrent use.
type Manager struct {
	o      ManagerOptions
	closed atomic.Bool
	// disabled is why every call is refused.
	disabled error
}

// NewManager checks o and asks nobody.
func NewManager(o ManagerOptions) (*Manager, error) {
	switch {
	case o.Targets == nil:
		return nil, errors.New("session manager: no targets")
	case o.Store == nil:
		return nil, errors.New("session manager: no binding store")
	case o.Exists == nil:
		return nil, errors.New("session manager: nothing tells whether a session exists; see AlwaysExists")
	case o.Config == "":
		return nil, errors.New("session manager: no config; see Resolver")
	}
	if err := (binding.Key{Tenant: o.Tenant, Session: "-"}).Validate(); err != nil {
		return nil, fmt.Errorf("session manager: %w", err)
	}
	for k := range o.Sandbox.Labels {
		if strings.HasPrefix(k, "caisson.") {
			return nil, fmt.Errorf("session manager: label %q: the prefix is reserved", k)
		}
	}
	if o.KeepAlive < 0 {
		return nil, errors.New("session manager: keep-alive is negative")
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = defaultKeepAlive
	}
	if o.Layout == (workspace.Layout{}) {
		o.Layout = workspace.Session()
	}
	if o.Bootstrap == nil {
		o.Bootstrap = noBootstrap{}
	}
	if o.Meter == nil {
		o.Meter = noMeter{}
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Manager{o: o}, nil
}

// Disabled returns a Manager that refuses everything with ErrDisabled, for
// programs in which sandboxes are switched off.
func Disabled() *Manager { return &Manager{disabled: ErrDisabled} }

// Close makes further calls fail with ErrClosed. It ends no sandbox: other replicas
// may be using them.
func (m *Manager) Close() { m.closed.Store(true) }

// Config is the named config that the Manager serves.
func (m *Manager) Config() string { return m.o.Config }

// Layout is where a session's files are.
func (m *Manager) Layout() workspace.Layout {
	if m.disabled != nil {
		return workspace.Failed(m.disabled)
	}
	return m.o.Layout
}

// begin checks a call and returns the session's key.
func (m *Manager) begin(session string) (binding.Key, error) {
	if m.disabled != nil {
		return binding.Key{}, m.disabled
	}
	if m.closed.Load() {
		return binding.Key{}, ErrClosed
	}
	key := binding.Key{Tenant: m.o.Tenant, Session: session}
	return key, key.Validate()
}

// target takes the config for the length of one call.
func (m *Manager) target(ctx context.Context) (Target, error) {
	t, err := m.o.Targets.Named(ctx, m.o.Tenant, m.o.Config)
	if err != nil {
		return Target{}, fmt.Errorf("sandbox config %q: %w", m.o.Config, err)
	}
	return t, nil
}

// ProviderOf is how a target is named in bindings: the plugin, and the node if its
// sandboxes live on one.
func ProviderOf(t Target) string {
	if t.Node == "" {
		return t.Info.Name
	}
	sum := sha256.Sum256([]byte(t.Node))
	return t.Info.Name + "@" + hex.EncodeToString(sum[:4])
}

// plugin is the part of a provider's name that says which plugin it is.
func plugin(provider string) string {
	name, _, _ := strings.Cut(provider, "@")
	return name
}

// NameOf is what the sandbox of a managed session is called at providers that let
// us name sandboxes. It is the same on every replica, so that such a provider
// itself refuses a second one, and tells nobody the tenant or the session.
func NameOf(deployment string, key binding.Key) string {
	h := sha256.New()
	for _, part := range []string{"caisson managed session", deployment, key.Tenant, key.Session} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "m_" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:24])
}
