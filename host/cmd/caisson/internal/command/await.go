package command

import (
	"context"
	"time"

	"github.com/caisson-run/caisson/host"
)

const (
	// readyPause is the time between two looks at whether a run would succeed.
	readyPause = 100 * time.Millisecond
	// warmPatience bounds how long a backend may prepare itself, such as by
	// compiling interpreters, before a command gives up.
	warmPatience = 3 * time.Minute
)

// awaitHost returns nil once a run would succeed. It waits only for a backend
// that says that it will be ready by itself; otherwise it returns the reason.
func awaitHost(ctx context.Context, h *host.Host, defaultBackend string) error {
	tick := time.NewTicker(readyPause)
	defer tick.Stop()
	end := time.NewTimer(warmPatience)
	defer end.Stop()
	for {
		err := h.Ready(ctx)
		if err == nil {
			return nil
		}
		if !warming(ctx, h, defaultBackend) {
			return h.Ready(ctx) // it may have become so meanwhile
		}
		select {
		case <-tick.C:
		case <-end.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// warming reports whether a backend expects to become ready.
func warming(ctx context.Context, h *host.Host, config string) bool {
	t, err := h.Target(ctx, config)
	if err != nil {
		return false
	}
	defer t.Release()
	health, err := t.Backend.Health(ctx)
	return err == nil && !health.Ready && health.RetryAfter > 0
}
