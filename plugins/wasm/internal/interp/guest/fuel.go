package guest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// Slice is how many units of fuel a guest runs on between two calls of the host:
// 0.1 to 0.4 ms of an interpreter's code. With a call costing half a microsecond,
// much shorter slices would begin to cost; longer ones would keep others waiting.
const Slice = 1 << 19

// FuelPerSecond is the nominal rate at which fuel stands for processor time, in
// units per second. It is a constant so that what is reported and limited does not
// depend on the machine: about what interpreters burn on a common one, where
// programs were measured between 2 and 5 units per nanosecond.
const FuelPerSecond = meter.UnitsPerSecond

// Fuel returns the fuel that stands for d, and CPUTime the time that stands for
// units of fuel, both at the nominal rate.
func Fuel(d time.Duration) int64 {
	const perNanosecond = FuelPerSecond / int64(time.Second)
	return min(int64(d), math.MaxInt64/perNanosecond) * perNanosecond
}

// CPUTime: see Fuel.
func CPUTime(units int64) time.Duration {
	return time.Duration(units / (FuelPerSecond / int64(time.Second)))
}

// ErrEnded is what host functions panic with when the run is over. It reaches
// whoever called the guest, wrapped in the error of that call or, from host code
// that no guest called, as the panic itself. [Run.Outcome] knows why the run ended.
var ErrEnded = errors.New("the run was ended")

// interrupt ends the guest from within a host function: not one more instruction
// of it runs.
func interrupt() { panic(ErrEnded) }

// instantiateMeter adds the module with the slice callback.
func instantiateMeter(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(meter.SliceModule)
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(slice), nil, nil).Export(meter.SliceName)
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("instantiate the meter: %w", err)
	}
	return nil
}

// slice is called by the guest whenever a slice is spent, and ahead of each part of
// a long bulk operation. Here a run that is over ends, and others get their turn:
// the scheduler cannot preempt the guest's code, so nothing else would stop it, and
// neither would the garbage collector's stop of the world ever come about.
func slice(ctx context.Context, m api.Module, _ []uint64) {
	r := stateOf(ctx)
	if r != nil {
		if err := r.account.Refill(r.fuel(m)); err != nil {
			r.outOfFuel = true
			interrupt()
		}
		r.beside()
	} else if c := counter(m); int64(c.Get()) < 0 { // a boot, which nobody pays for
		c.Set(Slice)
	}
	yield(ctx, r)
}

// turn is how long a guest computes before it lets others run. Goroutines that are
// not guests keep a processor for 10 ms, so a guest that gave it back with every
// slice would get next to nothing beside, say, the compilation of an interpreter;
// much longer turns would keep others waiting where many guests compute.
const turn = time.Millisecond

// Yield lets other goroutines run if it is their turn, and ends the guest if its run
// is over. Host functions that work for more than a millisecond call it in between.
func Yield(ctx context.Context) { yield(ctx, stateOf(ctx)) }

func yield(ctx context.Context, r *Run) {
	if ctx.Err() != nil {
		interrupt()
	}
	if r == nil {
		runtime.Gosched()
		return
	}
	if now := time.Now(); now.Sub(r.turn) >= turn {
		runtime.Gosched()
		r.turn = time.Now()
	}
}

// counter finds the fuel counter of an instance.
func counter(m api.Module) api.MutableGlobal {
	return m.ExportedGlobal(meter.CounterExport).(api.MutableGlobal)
}

// fuel returns the counter of the run's instance.
func (r *Run) fuel(m api.Module) api.MutableGlobal {
	if r.counter == nil {
		r.counter = counter(m)
	}
	return r.counter
}

// Charge takes units off the fuel of the run's instance, for work that the host
// does for it. It never ends the guest: the guest does not get far before it asks
// for more. m is the instance.
func (r *Run) Charge(m api.Module, units int64) {
	c := r.fuel(m)
	c.Set(uint64(int64(c.Get()) - units))
}

// used is the fuel that the run has used.
func (r *Run) used() int64 {
	if r.counter == nil {
		return 0
	}
	return r.account.Used(r.counter)
}
