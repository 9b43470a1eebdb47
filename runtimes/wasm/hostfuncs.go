package wasm

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/caisson-run/caisson/sdk/guest/abi"
)

// hostFunctions are the functions of host_v1.
var hostFunctions = []string{abi.FuncLog, abi.FuncNow, abi.FuncRand}

// maxRandBytes bounds one call of rand: no key or seed is longer, and a host
// function is not interrupted.
const maxRandBytes = 64 << 10

// grants refuses an import that the spec does not grant.
func (s *Spec) grants(im moduleImport) error {
	full := im.module + "." + im.name
	switch {
	case im.module == abi.WASIModule && s.WASI:
	case im.module == abi.WASIModule:
		return fmt.Errorf("%w: module imports %s which its manifest does not grant (wasi: true)", ErrRefused, full)
	case im.module != abi.HostModule || !slices.Contains(hostFunctions, im.name):
		return fmt.Errorf("%w: module imports %s which its manifest does not grant and this host does not offer", ErrRefused, full)
	case !slices.Contains(s.Imports, im.name):
		return fmt.Errorf("%w: module imports %s which its manifest does not grant", ErrRefused, full)
	}
	return nil
}

// provide instantiates what the spec grants in rt, and nothing else: a module
// cannot import what is not there, whatever grants may have overlooked.
func (m *Module) provide(ctx context.Context, rt wazero.Runtime) error {
	if m.spec.WASI {
		if err := provideWASI(experimental.WithFunctionListenerFactory(ctx, lookAfter{}), rt); err != nil {
			return fmt.Errorf("wasi: %w", err)
		}
	}
	if len(m.spec.Imports) == 0 {
		return nil
	}
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	b := rt.NewHostModuleBuilder(abi.HostModule)
	for _, name := range m.spec.Imports {
		f := b.NewFunctionBuilder()
		switch name {
		case abi.FuncLog:
			f = f.WithGoModuleFunction(api.GoModuleFunc(m.hostLog), []api.ValueType{i32, i32, i32}, nil)
		case abi.FuncNow:
			f = f.WithGoModuleFunction(api.GoModuleFunc(m.hostNow), nil, []api.ValueType{i64})
		case abi.FuncRand:
			f = f.WithGoModuleFunction(api.GoModuleFunc(m.hostRand), []api.ValueType{i32, i32}, nil)
		}
		b = f.Export(name)
	}
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("%s: %w", abi.HostModule, err)
	}
	return nil
}

// wasiKept are the functions of WASI that do something here.
var wasiKept = []string{
	"args_get", "args_sizes_get", "clock_res_get", "clock_time_get", "environ_get", "environ_sizes_get",
	"fd_close", "fd_fdstat_get", "fd_fdstat_set_flags", "fd_filestat_get", "fd_prestat_dir_name", "fd_prestat_get",
	"fd_read", "fd_seek", "fd_write", "poll_oneoff", "proc_exit", "random_get", "sched_yield",
}

// provideWASI instantiates WASI preview 1. Functions that are about files and sockets
// find none, and say so themselves: wazero would first copy a path as long as the
// guest's memory, or make room for all descriptors below a large one.
func provideWASI(ctx context.Context, rt wazero.Runtime) error {
	b := rt.NewHostModuleBuilder(abi.WASIModule)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	all, err := b.Compile(ctx)
	if err != nil {
		return err
	}
	for name, f := range all.ExportedFunctions() {
		if !slices.Contains(wasiKept, name) {
			b.NewFunctionBuilder().WithGoFunction(api.GoFunc(badDescriptor), f.ParamTypes(), f.ResultTypes()).Export(name)
		}
	}
	if err := all.Close(ctx); err != nil {
		return err
	}
	_, err = b.Instantiate(ctx)
	return err
}

// badDescriptor says that the descriptor it is given is none.
func badDescriptor(_ context.Context, stack []uint64) {
	const errnoBadf = 8
	stack[0] = errnoBadf
}

// A host function that panics traps its caller.

func (m *Module) hostLog(ctx context.Context, guest api.Module, stack []uint64) {
	// Parameters of type i32 may have anything in their upper half.
	level, ptr, n := uint32(stack[0]), uint32(stack[1]), uint32(stack[2])
	text, ok := guest.Memory().Read(ptr, min(n, maxLogBytes))
	if !ok {
		panic(fmt.Errorf("log: %d bytes at %d are outside of the memory", n, ptr))
	}
	m.guestLog.write(level, text, n > maxLogBytes)
	instanceOf(ctx).look()
}

func (m *Module) hostNow(_ context.Context, _ api.Module, stack []uint64) {
	if m.spec.Deterministic {
		stack[0] = uint64(fixedTime.UnixMilli())
		return
	}
	stack[0] = uint64(time.Now().UnixMilli())
}

func (m *Module) hostRand(ctx context.Context, guest api.Module, stack []uint64) {
	ptr, n := uint32(stack[0]), uint32(stack[1])
	p, ok := guest.Memory().Read(ptr, n)
	if !ok || n > maxRandBytes {
		panic(fmt.Errorf("rand: %d bytes at %d are outside of the memory or more than %d", n, ptr, maxRandBytes))
	}
	if m.spec.Deterministic {
		clear(p)
		return
	}
	_, _ = rand.Read(p) // crypto/rand.Read never fails
	instanceOf(ctx).look()
}
