package host

import (
	"context"

	"github.com/caisson-run/caisson/host/session"
)

// Target is a named config as its operator sees it, whichever tenant it belongs
// to, or session.ErrConfigNotFound. It starts the plugin if need be. The caller
// releases it. Requests of tenants go through Sessions instead.
func (h *Host) Target(ctx context.Context, config string) (session.Target, error) {
	return h.backends.Named(ctx, "", config)
}
