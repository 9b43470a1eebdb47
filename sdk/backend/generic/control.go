package generic

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// Why the context of a run ended: causes for StopOf.
var (
	// ErrWall: the run's wall limit.
	ErrWall = errors.New("wall limit")
	// ErrBeside: it computed too much beside its calls.
	ErrBeside = errors.New("the limit of processor time beside open calls was used up")
)

// StopOf tells the run's own limits, which are causes of its context, from a caller who
// is gone, and what there is to say about it.
func StopOf(ctx context.Context) (backend.StopReason, string) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrWall):
		return backend.StopTimeout, ""
	case errors.Is(cause, ErrBeside):
		return backend.StopCPU, ErrBeside.Error()
	}
	return backend.StopCanceled, ""
}

// BesideLimit is the most processor time that a run may use beside open calls
// (backend.RunSpec.Control).
func BesideLimit(l backend.Limits) time.Duration {
	if l.CPU > 0 {
		return l.CPU
	}
	beside := float64(l.Wall) * cmp.Or(l.CPUs, 1)
	return time.Duration(min(beside, math.MaxInt64/2))
}

// executeControlled runs the steps of a run that makes calls. cancel ends the run.
func (r *run) executeControlled(ctx context.Context, c Controller, cancel context.CancelCauseFunc) error {
	l, path, err := c.Listen(ctx, r.spec.Ref, r.spec.RunID)
	if err != nil {
		return err
	}
	timed, clock, end := control.WithClock(ctx, r.out.limits.Wall, ErrWall)
	defer end(nil)
	calls := control.NewRun(timed, control.Config{Call: r.live.Call, Clock: clock, Gone: cancel})
	defer calls.Close()
	serving, stop := context.WithCancel(timed)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() {
		if err := calls.ServeListener(serving, l); err != nil {
			cancel(err)
		}
	})
	all.Go(func() {
		control.Beside{
			Used:   func() (time.Duration, error) { return c.Used(r.spec.Ref) },
			Limit:  BesideLimit(r.out.limits),
			Expire: func() { end(ErrBeside) },
		}.Watch(serving, calls)
	})
	env := map[string]string{control.EnvPath: path}
	if helper := c.Helper(); helper != "" {
		env[control.EnvCall] = helper
	}
	return r.execute(timed, env, clock.Spent)
}
