package command

import (
	"context"
	"fmt"
	"time"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/tracing"
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/hashicorp/go-hclog"
)

// flushTimeout bounds the sending of the last spans.
const flushTimeout = 5 * time.Second

// measure opens what the server is measured with. flush sends the spans that were not
// sent yet.
func (a *app) measure(ctx context.Context, s settings, log hclog.Logger) (t *telemetry.Telemetry, flush func(), err error) {
	o := telemetry.Options{Runtime: true, Version: version(), TrustParent: s.Telemetry.TrustTraceparent}
	var tel *telemetry.Telemetry // makes the spans, and so is there before any is sent
	sent := func(spans int, err error) { tel.SpansSent(spans, err) }
	provider, err := tracing.Open(ctx, a.LookupEnv, version(), log.Named("tracing"), sent)
	if err != nil {
		return nil, nil, fmt.Errorf("tracing: %w", err)
	}
	if provider == nil {
		return telemetry.New(o), func() {}, nil
	}
	o.Tracing = provider
	log.Info("spans are sent as the variables of OpenTelemetry say")
	tel = telemetry.New(o)
	return tel, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans were not sent", "error", err)
		}
	}, nil
}
