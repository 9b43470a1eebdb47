package guest

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// WASI error numbers used here.
const (
	wasiFault = 21
	wasiInval = 28
	wasiIO    = 29
)

// InstantiateWASI adds WASI preview 1 to a runtime: wazero's, with a
// poll_oneoff and a fd_advise that sleep until the run's context ends, and
// with the error numbers that wazero has no name for.
func InstantiateWASI(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	b.NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(pollOneoff), []api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}).
		Export("poll_oneoff")
	b.NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(fdAdvise), []api.ValueType{i32, i64, i64, i32}, []api.ValueType{i32}).
		Export("fd_advise")
	ctx = experimental.WithFunctionListenerFactory(ctx, experimental.FunctionListenerFactoryFunc(errnoListener))
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("instantiate WASI: %w", err)
	}
	return nil
}

// errnoFunctions are the WASI functions whose failure may be a full quota.
var errnoFunctions = map[string]bool{
	"fd_write": true, "fd_pwrite": true, "fd_allocate": true, "fd_filestat_set_size": true,
	"path_open": true, "path_create_directory": true, "path_link": true, "path_symlink": true, "path_rename": true,
}

// errnoListener attaches to the functions above.
func errnoListener(def api.FunctionDefinition) experimental.FunctionListener {
	if errnoFunctions[def.Name()] {
		return exactErrno{}
	}
	return nil
}

// exactErrno replaces "I/O error", which is what wazero makes of an error it
// cannot express, by the number that rootfs noted. wazero hands After the very
// slots the results are taken from; should that change, the guest sees the I/O
// error, and TestDiskFull notices.
type exactErrno struct{}

func (exactErrno) Before(ctx context.Context, _ api.Module, _ api.FunctionDefinition, _ []uint64, _ experimental.StackIterator) {
	if s := stateOf(ctx); s != nil {
		s.errno = 0
	}
}

func (exactErrno) After(ctx context.Context, _ api.Module, _ api.FunctionDefinition, results []uint64) {
	if s := stateOf(ctx); s != nil && s.errno != 0 && len(results) > 0 && uint32(results[0]) == wasiIO {
		results[0] = uint64(s.errno)
	}
}

func (exactErrno) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}
