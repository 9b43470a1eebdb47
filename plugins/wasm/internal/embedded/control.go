package embedded

import (
	"context"
	"maps"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/sdk/backend/control"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// timed returns the context of the steps, which ends with the wall limit, and end,
// which must be called. Of a run that makes calls it also makes the channel.
func (r *run) timed(ctx context.Context, wall time.Duration) (_ context.Context, end context.CancelCauseFunc) {
	if !r.spec.Control {
		ctx, cancel := context.WithTimeoutCause(ctx, wall, generic.ErrWall)
		return ctx, func(error) { cancel() }
	}
	ctx, clock, cancel := control.WithClock(ctx, wall, generic.ErrWall)
	r.clock = clock
	r.calls = control.NewRun(ctx, control.Config{Call: r.io.Call, Clock: clock, Gone: cancel})
	limits := r.spec.Limits
	limits.Wall, limits.CPUs = wall, 1
	r.beside = &guest.Beside{Limit: interp.Fuel(generic.BesideLimit(limits)), Expire: func() { cancel(generic.ErrBeside) }}
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
