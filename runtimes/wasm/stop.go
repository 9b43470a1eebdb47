package wasm

import (
	"context"
	"time"

	"github.com/tetratelabs/wazero"
)

// stopper bounds how long guest code runs. It is the one place that knows the
// mechanism: wazero's own cancellation now, metered code in its stead later.
// Guest code runs between arm and disarm, on the goroutine that calls both.
type stopper interface {
	// name is what an inspection of a module shows.
	name() string
	// configure adapts how modules are compiled.
	configure(wazero.RuntimeConfig) wazero.RuntimeConfig
	// arm starts the clock: the guest code of in may run for d, and under the
	// context returned, which is ctx or derived from it.
	arm(ctx context.Context, in *instance, d time.Duration) context.Context
	// disarm stops the clock and returns nil, or why guest code had to end by now:
	// context.DeadlineExceeded, or the end of arm's ctx. If it is not nil the
	// instance is of no further use, even if the last call came back.
	disarm(in *instance) error
}

// contextStop is wazero's WithCloseOnContextDone: compiled code looks at a flag at
// each loop header, and a goroutine per call watches the context. It closes the
// instance it stopped. It does not see code that runs long without a loop, such as
// a tree of calls forty levels deep, nor one long bulk memory instruction.
type contextStop struct{}

func (contextStop) name() string { return "context" }

func (contextStop) configure(c wazero.RuntimeConfig) wazero.RuntimeConfig {
	return c.WithCloseOnContextDone(true)
}

func (contextStop) arm(ctx context.Context, in *instance, d time.Duration) context.Context {
	in.running, in.cancel = context.WithTimeout(ctx, d)
	return in.running
}

// disarm asks before it cancels: wazero's watcher may close the instance just
// after a call that took all its time came back, so the deadline counts even then.
func (contextStop) disarm(in *instance) error {
	err := in.running.Err()
	in.cancel()
	in.running, in.cancel = nil, nil
	return err
}

// noStop does not stop anything. It is for measurements: it shows what a call
// costs without the mechanism, which is what metered code will come close to.
type noStop struct{}

func (noStop) name() string { return "none" }

func (noStop) configure(c wazero.RuntimeConfig) wazero.RuntimeConfig { return c }

func (noStop) arm(ctx context.Context, _ *instance, _ time.Duration) context.Context { return ctx }

func (noStop) disarm(*instance) error { return nil }
