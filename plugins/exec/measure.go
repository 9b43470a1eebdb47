package exec

import (
	"context"
	"errors"
	"net/http"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/telemetry"
)

// measured lets the queue be looked at, and returns how to end that.
func (i *Interpreter) measured() func(context.Context) error {
	remove := i.telemetry.AddQueue(func() telemetry.Queue {
		s := i.queue.Stats()
		q := telemetry.Queue{
			Running: s.Running, Waiting: s.Waiting, Places: s.Places, Tenants: s.Tenants,
			Memory: s.Memory, MemoryBudget: i.o.MemoryBytes,
		}
		if r, ok := i.o.Limiter.(*rates); ok {
			q.Principals = r.remembered()
		}
		q.Programs, q.Suspended = i.programs.Live()
		return q
	})
	return func(context.Context) error {
		remove()
		return nil
	}
}

// reserve holds the price of a run.
func (i *Interpreter) reserve(ctx context.Context, c *call) error {
	_, phase := i.telemetry.Phase(ctx, telemetry.PhaseReserve)
	// With the request's own context: a detached one names no payer.
	charge, err := c.billing.Reserve(ctx, c.principal.Payer, host.ActRun, c.cents)
	phase.End(err)
	if err != nil {
		i.telemetry.Settled(telemetry.ChargeRefused)
		return err
	}
	if c.charge = charge; charge != nil {
		i.telemetry.Reserved()
	}
	return nil
}

// settled counts what became of a reservation.
func (i *Interpreter) settled(c *call) {
	if c.settled == "" {
		c.settled = telemetry.ChargeReleased
	}
	i.telemetry.Settled(c.settled)
}

// ended measures a run that is over. err is why it has no result.
func (i *Interpreter) ended(ctx context.Context, c *call, err error) {
	if i.telemetry == nil {
		return
	}
	outcome := telemetry.RunCompleted
	he, refused := errors.AsType[*host.HTTPError](err)
	switch {
	case err == nil:
	case errors.Is(err, errCanceled):
		outcome = telemetry.RunCanceled
	case refused && he.Status < http.StatusInternalServerError:
		outcome = telemetry.RunRefused
	default:
		outcome = telemetry.RunFailed
	}
	i.telemetry.RunEnded(telemetry.Run{
		Language: c.language, Outcome: outcome, Stop: string(c.outcome), Wall: c.used.Wall, CPU: c.used.CPU,
		BytesIn: c.used.BytesIn, BytesOut: c.used.BytesOut, PeakMemory: c.used.PeakMemoryBytes,
	})
	if span := i.telemetry.Current(ctx); span.Exists() {
		span.Text("caisson.run_id", c.runID)
		span.Text("caisson.language", c.language)
		span.Text("caisson.outcome", outcome)
		span.Text("caisson.stop", string(c.outcome))
	}
}
