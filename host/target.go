package host

import (
	"context"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/runtimes/handoff"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Target is a named config as its operator sees it, whichever tenant it belongs
// to, or session.ErrConfigNotFound. It starts the plugin if need be. The caller
// releases it. Requests of tenants go through Sessions instead.
func (h *Host) Target(ctx context.Context, config string) (session.Target, error) {
	return h.backends.Named(ctx, "", config)
}

// Probe asks the backend of a named config what could be done with it now: for
// operators, who want to know what is wrong with it. It makes no sandbox. The error
// is session.ErrConfigNotFound where there is no such config.
func (h *Host) Probe(ctx context.Context, config string) (backend.ProbeReport, error) {
	t, err := h.Target(ctx, config)
	if err != nil {
		return backend.ProbeReport{}, err
	}
	defer t.Release()
	r := h.backends.now.Load()
	p := r.lines[r.byID[config].Plugin].program()
	if p == nil {
		return backend.ProbeReport{}, handoff.ErrClosed
	}
	c, ok := p.config(config)
	if !ok {
		return backend.ProbeReport{}, session.ErrConfigNotFound
	}
	return t.Backend.Probe(ctx, c.Config)
}
