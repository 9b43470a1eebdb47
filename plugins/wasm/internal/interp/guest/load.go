package guest

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// Load returns a module that is metered and compiled, in a runtime of its own with
// the slice callback, WASI, and the host modules that add instantiates. Code and
// rewritten module are kept in cache. opts say what else is to
// be changed: Load sets Fuel, and drops custom sections unless told to keep names.
//
// Instances come from package machine, which wants opts.DropData, or are made with
// [Run.Context] and [Run.ModuleConfig], one for each Run. Calls with a context that belongs to no Run, as for a boot, are stopped by that
// context and pay nothing.
func Load(ctx context.Context, cache codecache.Cache, wasm []byte, opts meter.Options, add ...func(context.Context, wazero.Runtime) error) (*codecache.Module, error) {
	opts.Fuel = &meter.Fuel{Seed: Slice}
	if opts.Custom != meter.KeepNames {
		opts.Custom = meter.DropCustom
	}
	m, err := cache.Compile(ctx, wasm, opts)
	if err != nil {
		return nil, err
	}
	for _, f := range append(add, instantiateMeter, instantiateWASI) {
		if err := f(ctx, m.Runtime); err != nil {
			return nil, errors.Join(err, m.Close(context.WithoutCancel(ctx)))
		}
	}
	return m, nil
}
