package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/plugins/internal/control"
	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Plugin is what a provider's plugin adds.
type Plugin struct {
	// Name and Version are those of the manifest.
	Name, Version string
	// Capabilities that the plugin declares.
	Capabilities []backend.Capability
	// Open reads a config and prepares its control plane. It talks to nobody.
	Open func(raw json.RawMessage) (*Config, error)
	// Dir is where tokens that a provider hands out only once are kept, 0700. Empty
	// keeps them in memory.
	Dir string
	Log hclog.Logger
	// Now is the clock and Sleep waits; nil means those of the system.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// Config is one named config, as a plugin read it.
type Config struct {
	// API is the control plane.
	API *control.Client
	// Dialect is how the provider differs.
	Dialect Dialect
	// Dial opens the connections of the data plane; it decides about addresses.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Data are the options of the data plane, without Provider, Dial and Control.
	Data envd.Options
	// Settings that all providers have.
	Settings
	// Reach looks whether anybody answers at the gateway; nil when there is none.
	Reach func(ctx context.Context) error
	// Idle drops idle connections of the control plane.
	Idle func()
}

// Dialect is how a provider differs from others. Its methods are safe for concurrent
// use; errors are *backend.Error values.
type Dialect interface {
	// ValidID reports whether a text can be the id of a sandbox at all.
	ValidID(id string) bool
	// CreateBody is the request that makes a sandbox with that metadata. It refuses
	// what the provider cannot do.
	CreateBody(spec backend.CreateSpec, metadata map[string]string) (any, error)
	// TTL is the timeout of a sandbox that was made with that policy, as it is sent
	// when it is connected to. Below zero it is never.
	TTL(policy backend.TimeoutPolicy) time.Duration
	// Traits are the differences that are a matter of yes or no.
	Traits() Traits
	// Builder builds templates; nil when the config says nothing about it.
	Builder() Builder
}

// Traits of a provider.
type Traits struct {
	// FilterLocally lists everything: the provider's own filter misses sandboxes.
	FilterLocally bool
	// LosesMetadata: a sandbox may come back without metadata; what is recorded here
	// then says whose it is.
	LosesMetadata bool
	// TokenOnce: tokens come with the creation only and have to be kept.
	TokenOnce bool
	// NeedToken: a sandbox without an access token is open to everybody and refused.
	NeedToken bool
	// TrueVersion: the provider knows the daemon's version.
	TrueVersion bool
	// SlowPause: pausing goes on after it was answered.
	SlowPause bool
	// IdleTTL: the timeout counts from the last activity, so that it must not be
	// shortened for one moment's sake.
	IdleTTL bool
	// NoCreateEnv: the environment given at creation may be dropped; it is given to
	// every program instead.
	NoCreateEnv bool
}

// Backend is the plugin as a backend. It is safe for concurrent use.
type Backend struct {
	p Plugin

	mu      sync.RWMutex
	configs map[string]*config
}

var _ interface {
	backend.Backend
	backend.TokenConnector
	backend.KeepAliver
	backend.Pauser
	backend.Snapshotter
	backend.TemplateCatalog
	backend.TerminalOpener
	backend.PortDialer
	backend.DetachedRunner
	backend.Watcher
} = (*Backend)(nil)

// Serve is the main function of a plugin. The host says where to keep things.
func Serve(p Plugin) {
	backend.Serve(func(_ context.Context, log hclog.Logger) (backend.Backend, error) {
		p.Log, p.Dir = log, os.Getenv(backend.EnvData)
		if p.Dir == "" {
			return nil, fmt.Errorf("%s is not set: this is a plugin, to be started by a host", backend.EnvData)
		}
		return New(p), nil
	})
}

// New returns the backend of a plugin.
func New(p Plugin) *Backend {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.Log == nil {
		p.Log = hclog.NewNullLogger()
	}
	return &Backend{p: p, configs: make(map[string]*config)}
}

// Close drops every config's connections.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, c := range b.configs {
		c.close()
		delete(b.configs, id)
	}
	return nil
}

// Info implements backend.Backend.
func (b *Backend) Info(context.Context) (backend.Info, error) {
	return backend.Info{Name: b.p.Name, Version: b.p.Version, Capabilities: b.p.Capabilities, StateSchema: []string{"1"}}, nil
}

// Health implements backend.Backend. It asks nobody: providers are asked by Probe.
func (b *Backend) Health(context.Context) (backend.Health, error) {
	return backend.Health{Ready: true}, nil
}

// OpenConfig implements backend.Backend.
func (b *Backend) OpenConfig(ctx context.Context, id string, raw json.RawMessage) error {
	const op = "OpenConfig"
	if err := ctx.Err(); err != nil {
		return err
	}
	if id == "" {
		return b.fail(op, backend.KindInvalidRequest, "id is required")
	}
	b.mu.RLock()
	old := b.configs[id]
	b.mu.RUnlock()
	if old != nil && bytes.Equal(old.raw, raw) {
		return nil
	}
	c, err := b.open(op, id, raw)
	if err != nil {
		return err
	}
	b.mu.Lock()
	old = b.configs[id]
	b.configs[id] = c
	b.mu.Unlock()
	if old != nil {
		old.close()
	}
	return nil
}

// open makes a config usable. It talks to nobody.
func (b *Backend) open(op, id string, raw json.RawMessage) (*config, error) {
	parsed, err := b.p.Open(raw)
	if err != nil {
		return nil, b.invalidConfig(op, err)
	}
	if b.p.Sleep != nil {
		parsed.API = parsed.API.WithSleep(b.p.Sleep)
	}
	c := &config{Config: parsed, b: b, id: id, raw: bytes.Clone(raw), traits: parsed.Dialect.Traits()}
	c.records = records{dir: b.p.Dir, config: id}
	data := parsed.Data
	data.Provider, data.Dial, data.Control = b.p.Name, parsed.Dial, c
	if c.data, err = envd.New(data); err != nil {
		parsed.Idle()
		return nil, b.invalidConfig(op, err)
	}
	return c, nil
}

func (b *Backend) invalidConfig(op string, err error) error {
	e := b.fail(op, backend.KindInvalidRequest, "config: %w", err)
	e.Subject = backend.SubjectConfig
	return e
}

// CloseConfig implements backend.Backend.
func (b *Backend) CloseConfig(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	c := b.configs[id]
	delete(b.configs, id)
	b.mu.Unlock()
	if c != nil {
		c.close()
	}
	return nil
}

// Probe implements backend.Backend, with connections of its own that end with it.
func (b *Backend) Probe(ctx context.Context, raw json.RawMessage) (backend.ProbeReport, error) {
	const op = "Probe"
	c, err := b.open(op, "", raw)
	if err != nil {
		return backend.ProbeReport{Detail: err.Error()}, nil
	}
	defer c.close()
	report := backend.ProbeReport{Languages: c.languages()}
	err = c.API.Health(ctx, op)
	if err == nil {
		err = c.API.TemplateExists(ctx, op, c.TemplateID)
	}
	if err == nil && c.Reach != nil {
		err = c.Reach(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return backend.ProbeReport{}, ctx.Err()
	case err != nil:
		report.Detail = c.API.Redact(err.Error())
	default:
		report.OK, report.Detail = true, fmt.Sprintf("the provider takes the credentials and has template %q", c.TemplateID)
	}
	return report, nil
}

// config returns an open config.
func (b *Backend) config(op, id string) (*config, error) {
	b.mu.RLock()
	c := b.configs[id]
	b.mu.RUnlock()
	if c == nil {
		e := b.fail(op, backend.KindNotFound, "config %q is not open", id)
		e.Subject = backend.SubjectConfig
		return nil, e
	}
	return c, nil
}

// fail makes an error of the control plane's side. It proves nothing unless a subject
// is added.
func (b *Backend) fail(op string, kind backend.Kind, format string, args ...any) *backend.Error {
	e := backend.Errorf(kind, op, format, args...)
	e.Provider, e.Plane = b.p.Name, backend.PlaneControl
	return e
}

// config is an open named config.
type config struct {
	*Config
	b       *Backend
	id      string
	raw     json.RawMessage
	traits  Traits
	data    *envd.Client
	records records

	connect control.Versions
	create  control.Versions
	lanes   lanes

	mu    sync.Mutex
	known map[string]known
}

// maxKnown bounds what a config remembers of sandboxes.
const maxKnown = 4096

// known is what never changes about a sandbox of this config, so that it is read once.
type known struct {
	metadata backend.Metadata
	policy   backend.TimeoutPolicy
	created  time.Time
}

func (c *config) close() {
	c.data.Close()
	c.Idle()
}

// absent proves that a sandbox does not exist in this config.
func (c *config) absent(op string) error {
	e := c.b.fail(op, backend.KindNotFound, "there is no such sandbox in this config")
	e.Subject = backend.SubjectSandbox
	return e
}

func (c *config) remember(id string, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxKnown {
		c.known = make(map[string]known) // a cache: sandboxes end without anybody telling us
	}
	c.known[id] = k
}

func (c *config) recall(id string) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[id]
	return k, ok
}

// forget drops what is known of a sandbox that is gone.
func (c *config) forget(id string) {
	c.mu.Lock()
	delete(c.known, id)
	c.mu.Unlock()
	c.data.Forget(id)
	if err := c.records.remove(id); err != nil {
		c.b.p.Log.Warn("the record of a sandbox that is gone could not be removed", "error", err)
	}
}

// gone reports whether err proves that a sandbox does not exist.
func gone(err error) bool { return err != nil && backend.ProvesGone(err) }

// ambiguous reports whether a failed request may have been carried out all the same.
func ambiguous(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch backend.KindOf(err) {
	case backend.KindTimeout, backend.KindUnavailable, backend.KindInternal:
		return true
	}
	return false
}
