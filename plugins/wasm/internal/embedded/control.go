package embedded

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/control"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// errBeside is why the context of a run ended that computed too much beside its calls.
var errBeside = errors.New("the limit of processor time beside open calls was used up")

// timed returns the context of the steps, which ends with the wall limit, and end,
// which must be called. Of a run that makes calls it also makes the channel.
func (r *run) timed(ctx context.Context, wall time.Duration) (_ context.Context, end context.CancelCauseFunc) {
	if !r.spec.Control {
		ctx, cancel := context.WithTimeoutCause(ctx, wall, errWall)
		return ctx, func(error) { cancel() }
	}
	ctx, clock, cancel := control.WithClock(ctx, wall, errWall)
	r.clock = clock
	r.calls = control.NewRun(ctx, control.Config{Call: r.io.Call, Clock: clock, Gone: cancel})
	limits := r.spec.Limits
	limits.Wall, limits.CPUs = wall, 1
	r.beside = &guest.Beside{Limit: interp.Fuel(generic.BesideLimit(limits)), Expire: func() { cancel(errBeside) }}
	return ctx, func(why error) {
		cancel(why)
		r.calls.Close()
	}
}

// offer lets the program of the last step make calls.
func (r *run) offer(p *interp.Program) {
	if r.calls == nil {
		return
	}
	p.Control, p.Beside = r.calls, r.beside
	p.Env = maps.Clone(p.Env)
	p.Env[control.EnvPath], p.Env[control.EnvCall] = guest.ControlPath, guest.ControlCommand
}

// stopOf tells the run's own limits from a caller whose time is up.
func stopOf(ctx context.Context) backend.StopReason {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errWall):
		return backend.StopTimeout
	case errors.Is(cause, errBeside):
		return backend.StopCPU
	}
	return backend.StopCanceled
}
