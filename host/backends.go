package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/sdk/backend"
)

// backends are the named configs and the plugin processes behind them. It
// implements session.Targets.
type backends struct {
	node string
	now  atomic.Pointer[routes]
}

// routes say at one moment which config is served by which plugin. They are
// immutable: a new configuration makes others.
type routes struct {
	deflt   string
	configs []BackendConfig
	byID    map[string]BackendConfig
	lines   map[string]*line // by the plugin's name
}

var _ session.Targets = (*backends)(nil)

// route makes the routes of a configuration whose plugins have lines.
func route(c *Config, lines map[string]*line) *routes {
	r := &routes{deflt: c.Default, configs: c.Backends, byID: make(map[string]BackendConfig), lines: lines}
	for _, b := range c.Backends {
		r.byID[b.ID] = b
	}
	return r
}

// line is who serves a plugin's name, nil when nobody does.
func (b *backends) line(plugin string) *line { return b.now.Load().lines[plugin] }

// Default is where a tenant's new sessions go.
func (b *backends) Default(ctx context.Context, tenant string) (session.Target, error) {
	r := b.now.Load()
	return b.named(ctx, r, tenant, r.deflt)
}

// Named returns a config by id. A config that belongs to another tenant does
// not exist.
func (b *backends) Named(ctx context.Context, tenant, config string) (session.Target, error) {
	return b.named(ctx, b.now.Load(), tenant, config)
}

func (b *backends) named(ctx context.Context, r *routes, tenant, config string) (session.Target, error) {
	c, ok := r.byID[config]
	if !ok || (tenant != "" && c.Tenant != "" && c.Tenant != tenant) {
		return session.Target{}, session.ErrConfigNotFound
	}
	got, err := r.lines[c.Plugin].acquire(ctx)
	if err != nil {
		return session.Target{}, fmt.Errorf("sandbox config %q: %w", config, err)
	}
	u := got.unit
	t := session.Target{
		Config: c.ID, Backend: got.backend, Info: u.info,
		Languages: u.languages(ctx, c.ID), Pin: got.pin, Release: got.release,
	}
	if !u.info.Has(backend.CapShared) {
		t.Node = b.node
	}
	return t, nil
}

// health asks who serves t how it is. Operators are told the same from then on.
func (b *backends) health(ctx context.Context, t session.Target) (backend.Health, error) {
	tell := func(backend.Health) {}
	if l := b.line(t.Info.Name); l != nil {
		if p := l.program(); p != nil {
			if u, running := p.sup.Now(); running {
				tell = func(h backend.Health) { p.sup.Heard(ctx, u, supervise.Health{Ready: h.Ready, Reason: h.Reason}) }
			}
		}
	}
	health, err := t.Backend.Health(ctx)
	if err == nil {
		tell(health)
	}
	return health, err
}

// Configs lists what Named knows for a tenant, the default first.
func (b *backends) Configs(tenant string) []string {
	r := b.now.Load()
	ids := []string{r.deflt}
	for _, c := range r.configs {
		if c.ID != r.deflt && (tenant == "" || c.Tenant == "" || c.Tenant == tenant) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// close stops every plugin process, all at once, each within ctx.
func (b *backends) close(ctx context.Context) error { return closeLines(ctx, b.now.Load().lines) }

func closeLines(ctx context.Context, lines map[string]*line) error {
	errs := make([]error, 0, len(lines))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, l := range lines {
		wg.Go(func() {
			err := l.close(ctx)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// checkInfo refuses a plugin that is not what its manifest says: the manifest
// is what the operator agreed to.
func checkInfo(f found, info backend.Info) error {
	if info.Name != f.m.Name || info.Version != f.m.Version {
		return fmt.Errorf("plugin says it is %q %s, its manifest says %q %s; rebuild or reinstall it", info.Name, info.Version, f.m.Name, f.m.Version)
	}
	for _, c := range info.Capabilities {
		if !f.m.AllowsCapability(string(c)) {
			return fmt.Errorf("plugin claims capability %q, which its manifest does not grant", c)
		}
	}
	for _, s := range info.StateSchema {
		if !slices.Contains(f.m.StateSchema, s) {
			return fmt.Errorf("plugin serves state schema %q, which its manifest does not list", s)
		}
	}
	return nil
}
