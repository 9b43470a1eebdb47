package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// backends are the named configs and the plugin processes behind them. It
// implements session.Targets.
type backends struct {
	configs []BackendConfig
	byID    map[string]BackendConfig
	deflt   string
	node    string
	plugins map[string]*line
}

var _ session.Targets = (*backends)(nil)

// Default is where a tenant's new sessions go.
func (b *backends) Default(ctx context.Context, tenant string) (session.Target, error) {
	return b.Named(ctx, tenant, b.deflt)
}

// Named returns a config by id. A config that belongs to another tenant does
// not exist.
func (b *backends) Named(ctx context.Context, tenant, config string) (session.Target, error) {
	c, ok := b.byID[config]
	if !ok || (tenant != "" && c.Tenant != "" && c.Tenant != tenant) {
		return session.Target{}, session.ErrConfigNotFound
	}
	u, release, err := b.plugins[c.Plugin].acquire(ctx)
	if err != nil {
		return session.Target{}, fmt.Errorf("sandbox config %q: %w", config, err)
	}
	t := session.Target{
		Config: c.ID, Backend: u.backend, Info: u.info,
		Languages: u.offers[c.ID].languages(ctx), Release: sync.OnceFunc(release),
	}
	if !u.info.Has(backend.CapShared) {
		t.Node = b.node
	}
	return t, nil
}

// Configs lists what Named knows for a tenant, the default first.
func (b *backends) Configs(tenant string) []string {
	ids := []string{b.deflt}
	for _, c := range b.configs {
		if c.ID != b.deflt && (tenant == "" || c.Tenant == "" || c.Tenant == tenant) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// close stops every plugin process, all at once, each within ctx.
func (b *backends) close(ctx context.Context) error {
	errs := make([]error, 0, len(b.plugins))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range b.plugins {
		wg.Go(func() {
			err := s.slot.Close(ctx)
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
