package host

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/caisson-run/caisson/host/backendconfig"
	"github.com/caisson-run/caisson/sdk/backend"
)

// leaving is a config that would not reach its sandboxes any more after a change.
type leaving struct {
	config  string
	program *program
	gone    bool
}

// stranded finds them: those whose identity changes and those that are gone. A change of
// a config whose plugin's manifest does not say what decides about identity is let pass.
func (r *reconfiguration) stranded() ([]leaving, error) {
	var out []leaving
	for name, l := range r.before.lines {
		p := l.program()
		if p == nil {
			continue
		}
		d, err := backendconfig.Describe(p.found.m)
		if err != nil {
			return nil, err
		}
		next, err := completeConfigs(p.found, r.next.of(name))
		if err != nil {
			return nil, err
		}
		for _, was := range p.configs() {
			i := slices.IndexFunc(next, func(c BackendConfig) bool { return c.ID == was.ID })
			if i < 0 || d.Noted && !bytes.Equal(was.Config, next[i].Config) && d.SandboxIdentity(was.Config) != d.SandboxIdentity(next[i].Config) {
				out = append(out, leaving{was.ID, p, i < 0})
			}
		}
	}
	return out, nil
}

// strand refuses a change after which a config would not reach sandboxes that its
// provider still has: they would cost until they time out, and nobody could end them.
// The provider is asked with what the config holds now. Plugins that list nothing are
// let pass.
func (r *reconfiguration) strand(ctx context.Context, all []leaving) error {
	for _, c := range all {
		u, running := c.program.sup.Now()
		if !running && c.gone {
			// What does not run could not be taken away otherwise.
			r.h.log.Warn("a config goes whose plugin does not run: nobody can say which sandboxes it leaves behind", "config", c.config)
			continue
		}
		if !running {
			return fmt.Errorf("sandbox config %q: its plugin does not run, so nobody can say whether sandboxes would be lost", c.config)
		}
		if !u.info.Has(backend.CapList) {
			continue
		}
		live, err := backendconfig.Inventory(ctx, u.backend, backend.ListFilter{Config: c.config, Deployment: r.h.o.Deployment})
		if err != nil {
			return err
		}
		if len(live) > 0 {
			return &backendconfig.InUseError{Config: c.config, Count: len(live)}
		}
	}
	return nil
}
