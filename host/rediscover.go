package host

import (
	"context"
	"errors"
	"fmt"
)

// Rediscover looks again at what is installed, and swaps every plugin in use of which
// another version was installed than the one that serves, as SwapPlugin does. A version
// that SwapPlugin put in use from elsewhere stays until then, and one that was sent back
// is not tried again, since the next time nobody might ask it while it is watched. What
// is installed and cannot be used is refused. It
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
	changed, broken := h.registry.merge(fresh)
	for _, f := range broken {
		if now, _, err := h.inUse(f.status.Name); err == nil {
			h.log.Warn("what is installed cannot be used, and the version before serves on", "plugin", f.status.Name, "cause", f.status.Cause)
			reports = append(reports, SwapReport{Plugin: f.status.Name, Outcome: SwapRefused, Reason: f.status.Cause, From: versionOf(now)})
		}
	}
	for _, f := range changed {
		now, _, err := h.inUse(f.m.Name)
		if err != nil {
			h.registry.take(f)
			continue
		}
		if h.registry.wasSentBack(f) {
			reports = append(reports, SwapReport{
				Plugin: f.m.Name, Outcome: SwapRefused, From: versionOf(now), To: versionOf(f),
				Reason: "it was sent back when it was tried; install another, or have plugin swap try it again",
			})
			continue
		}
		o.Dir = f.status.Dir
		r, err := h.swapPlugin(ctx, f.m.Name, o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		switch r.Outcome {
		case SwapDone:
			h.registry.take(f)
		case SwapRolledBack:
			h.registry.sendBack(f)
		}
		reports = append(reports, r)
	}
	return reports, errors.Join(errs...)
}
