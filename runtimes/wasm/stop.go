package wasm

import (
	"context"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// stopper bounds how long guest code runs. It is the one place that knows the
// mechanism: fuel, or wazero's own cancellation. Guest code runs between arm and
// disarm, on the goroutine that calls both.
type stopper interface {
	// name is what an inspection of a module shows.
	name() string
	// key tells compiled code of one mechanism, and version of it, from others.
	key() string
	// rewrite returns the module as it is compiled. hardened is what harden made of
	// it.
	rewrite(module, hardened []byte) ([]byte, error)
	// configure adapts how modules are compiled.
	configure(wazero.RuntimeConfig) wazero.RuntimeConfig
	// provide instantiates what rewritten modules import besides what the originals
	// do.
	provide(ctx context.Context, rt wazero.Runtime) error
	// arm starts the clock: the guest code of in may run within b, and under the
	// context returned, which is ctx or derived from it.
	arm(ctx context.Context, in *instance, b bounds) context.Context
	// disarm stops the clock and returns nil, or why guest code had to end by now:
	// errTime, meter.ErrOutOfFuel, or the end of arm's ctx. If it is not nil the
	// instance is of no further use, even if the last call came back.
	disarm(in *instance) error
}

// bounds are what guest code may use until it has to come back.
type bounds struct {
	time time.Duration
	// fuel is in units of package meter. Only metered code is held to it.
	fuel int64
}

// errTime says that guest code was stopped because its time was up.
var errTime = context.DeadlineExceeded

// contextStop is wazero's WithCloseOnContextDone: compiled code looks at a flag at
// each loop header, and a goroutine per call watches the context. It closes the
// instance it stopped. It does not see code that runs long without a loop, such as
// a tree of calls forty levels deep, nor one long bulk memory instruction, and what
// it does not see keeps the collector waiting and with it the whole process. So it is
// only for modules that cannot be metered, where an operator wants them all the same.
type contextStop struct{}

func (contextStop) name() string { return StopContext }

func (contextStop) key() string { return StopContext }

func (contextStop) rewrite(_, hardened []byte) ([]byte, error) { return hardened, nil }

// configure allows what modules cannot be metered for, as far as wazero knows it.
// Tail calls are not allowed: a loop made of them has no header.
func (contextStop) configure(c wazero.RuntimeConfig) wazero.RuntimeConfig {
	return c.WithCloseOnContextDone(true).
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling | experimental.CoreFeaturesExtendedConst)
}

func (contextStop) provide(context.Context, wazero.Runtime) error { return nil }

func (contextStop) arm(ctx context.Context, in *instance, b bounds) context.Context {
	in.deadline = in.m.now() + b.time
	in.running, in.cancel = context.WithTimeout(ctx, b.time)
	return in.running
}

// disarm asks before it cancels: wazero's watcher may close the instance just
// after a call that took all its time came back, so the deadline counts even then.
func (contextStop) disarm(in *instance) error {
	err := in.ended
	if err == nil {
		err = in.running.Err()
	}
	in.cancel()
	in.running, in.cancel = nil, nil
	return err
}
