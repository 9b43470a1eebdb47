package wasm

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// sliceFuel is how much fuel guest code uses between two looks at the clock, at
// which other goroutines get their turn: a few tenths of a millisecond.
const sliceFuel = 1 << 18

// fuelStop is metered code: package meter has rewritten the module so that it
// counts what it executes and calls spent once per slice. No goroutine and no timer
// watches a call, and nothing is allocated for one.
type fuelStop struct{}

func (fuelStop) name() string { return StopFuel }

func (s fuelStop) key() string { return StopFuel + " " + s.options().Key() }

// options do not depend on what an operator sets, so that compiled code outlives
// a change of limits.
func (fuelStop) options() meter.Options {
	return meter.Options{
		Fuel:             &meter.Fuel{Seed: sliceFuel},
		MaxTableElements: maxTableElements,
		Custom:           meter.KeepNames,
		// Several times what policies need: wazero cannot be interrupted in the middle of a
		// function, so one has to compile in about a second.
		Limits: meter.Limits{
			FunctionBytes: 512 << 10, Ways: 5000, Joins: 250_000, Operands: 100_000,
			AllLocals: 2_000_000, Nesting: 1000, LoopNesting: 100, BranchTargets: 4096,
		},
	}
}

// rewrite takes the module as it was given: positions in its errors are those of
// the file that the author has.
func (s fuelStop) rewrite(module, _ []byte) ([]byte, error) {
	res, err := meter.Rewrite(module, s.options())
	if err != nil {
		return nil, err
	}
	return res.Module, nil
}

func (fuelStop) configure(c wazero.RuntimeConfig) wazero.RuntimeConfig {
	return c.WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst)
}

func (fuelStop) provide(ctx context.Context, rt wazero.Runtime) error {
	_, err := rt.NewHostModuleBuilder(meter.SliceModule).
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(spent), nil, nil).Export(meter.SliceName).
		Instantiate(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", meter.SliceModule, err)
	}
	return nil
}

func (fuelStop) arm(ctx context.Context, in *instance, b bounds) context.Context {
	in.running = ctx
	in.deadline = in.m.now() + b.time
	grant := int64(sliceFuel) // what an instance is born with
	if in.counter != nil {
		grant = min(grant, b.fuel)
		in.counter.Set(uint64(grant))
	}
	in.account = *meter.NewAccount(grant, sliceFuel, b.fuel)
	return ctx
}

// disarm does not look at the clock once more: a reply that came is as good as its
// instance, however late the machine was with it.
func (fuelStop) disarm(in *instance) error {
	if in.counter != nil {
		in.fuel = in.account.Used(in.counter)
	}
	return in.ended
}

// spent is the slice callback.
func spent(ctx context.Context, mod api.Module, _ []uint64) {
	in := instanceOf(ctx)
	if in.counter == nil {
		// The start function runs before wazero hands the instance out.
		in.count(mod)
	}
	runtime.Gosched()
	in.look()
	if err := in.account.Refill(in.counter); err != nil {
		in.end(err)
	}
}

// count finds the fuel counter of the instance, if it has one.
func (in *instance) count(mod api.Module) {
	if g, ok := mod.ExportedGlobal(meter.CounterExport).(api.MutableGlobal); ok {
		in.counter = g
	}
}

// look ends guest code whose time is up. It is for code of the host that guest code
// has called: what that does is not charged, and may take long.
func (in *instance) look() {
	if in.deadline > 0 && in.m.now() >= in.deadline {
		in.end(errTime)
	}
	if err := in.running.Err(); err != nil {
		in.end(err)
	}
}

// end ends guest code, from within a function of the host that it has called.
func (in *instance) end(why error) {
	in.ended = why
	panic(why)
}

// instanceKey is the key under which the context of guest code has its instance.
type instanceKey struct{}

func instanceOf(ctx context.Context) *instance {
	in, ok := ctx.Value(instanceKey{}).(*instance)
	if !ok {
		panic(errors.New("guest code runs outside of an instance"))
	}
	return in
}

// lookAfter has in.look called after each function of WASI: some take as long as
// the guest likes, and a guest that does nothing else uses next to no fuel.
type lookAfter struct{}

var (
	_ experimental.FunctionListenerFactory = lookAfter{}
	_ experimental.FunctionListener        = lookAfter{}
)

// NewFunctionListener implements experimental.FunctionListenerFactory.
func (l lookAfter) NewFunctionListener(api.FunctionDefinition) experimental.FunctionListener {
	return l
}

// Before implements experimental.FunctionListener.
func (lookAfter) Before(context.Context, api.Module, api.FunctionDefinition, []uint64, experimental.StackIterator) {
}

// After implements experimental.FunctionListener.
func (lookAfter) After(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64) {
	instanceOf(ctx).look()
}

// Abort implements experimental.FunctionListener.
func (lookAfter) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}
