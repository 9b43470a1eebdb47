package host

import (
	"context"
	"fmt"

	"github.com/caisson-run/caisson/host/backendconfig"
	"github.com/caisson-run/caisson/sdk/backend"
)

// strand refuses a change after which a config would not reach sandboxes that its
// provider still has: they would cost until they time out, and nobody could end them.
// The provider is asked with what the config holds now. Plugins whose manifest does
// not say what decides about that, and those that list nothing, are let pass.
func (r *reconfiguration) strand(ctx context.Context) error {
	for _, e := range r.edits {
		d, err := backendconfig.Describe(e.program.found.m)
		if err != nil {
			return err
		}
		if !d.Noted {
			continue
		}
		for _, c := range e.open {
			was, ok := e.program.config(c.ID)
			if !ok || d.SandboxIdentity(was.Config) == d.SandboxIdentity(c.Config) {
				continue
			}
			u, running := e.program.sup.Now()
			if !running {
				return fmt.Errorf("sandbox config %q: its plugin does not run, so nobody can say whether sandboxes would be lost", c.ID)
			}
			if !u.info.Has(backend.CapList) {
				continue
			}
			live, err := backendconfig.Inventory(ctx, u.backend, backend.ListFilter{Config: c.ID, Deployment: r.h.o.Deployment})
			if err != nil {
				return err
			}
			if len(live) > 0 {
				return &backendconfig.InUseError{Config: c.ID, Count: len(live)}
			}
		}
	}
	return nil
}
