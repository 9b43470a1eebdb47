package host

import (
	"context"
	"errors"
	"fmt"
)

// Rediscover looks again at what is installed, and swaps every plugin in use of which
// another version was installed than the one that serves, as SwapPlugin does. A version
// that SwapPlugin put in use from elsewhere stays until then. It
// returns the reports, and joins what could not be tried into the error.
func (h *Host) Rediscover(ctx context.Context, o SwapOptions) ([]SwapReport, error) {
	ctx, done, err := h.change(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for plugins: %w", err)
	}
	defer done()
	fresh, err := newRegistry(h.o.PluginDirs, h.o.Trust)
	if err != nil {
		return nil, err
	}
	var reports []SwapReport
	var errs []error
	for _, f := range h.registry.merge(fresh) {
		if _, _, err := h.inUse(f.m.Name); err != nil {
			h.registry.take(f)
			continue
		}
		o.Dir = f.status.Dir
		r, err := h.swapPlugin(ctx, f.m.Name, o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if r.Outcome == SwapDone {
			h.registry.take(f)
		}
		reports = append(reports, r)
	}
	return reports, errors.Join(errs...)
}
