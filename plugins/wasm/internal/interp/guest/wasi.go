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
	wasiAgain = 6
	wasiFault = 21
	wasiInval = 28
	wasiIO    = 29
	// wazero says the first where two mounts are involved, systems the second.
	wasiNoSys       = 52
	wasiNoSeek      = 70
	wasiCrossDevice = 75
)

// instantiateWASI adds WASI preview 1 to a runtime: wazero's, with a
// poll_oneoff and a fd_advise that sleep until the run's context ends, a random_get
// that looks at it, with the error numbers that wazero has no name for, and charged
// to the guest.
func instantiateWASI(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	b.NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(pollOneoff), []api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}).
		Export("poll_oneoff")
	b.NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(fdAdvise), []api.ValueType{i32, i64, i64, i32}, []api.ValueType{i32}).
		Export("fd_advise")
	b.NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(randomGet), []api.ValueType{i32, i32}, []api.ValueType{i32}).
		Export("random_get")
	ctx = experimental.WithFunctionListenerFactory(ctx, experimental.FunctionListenerFactoryFunc(newHostCall))
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("instantiate WASI: %w", err)
	}
	return nil
}

// errnoFunctions are the WASI functions whose failure may have a cause that wazero has no
// number for: a full quota, too many open files, or a file that has no place to seek to.
var errnoFunctions = map[string]bool{
	"fd_write": true, "fd_pwrite": true, "fd_seek": true, "fd_tell": true, "fd_allocate": true, "fd_filestat_set_size": true,
	"path_open": true, "path_create_directory": true, "path_link": true, "path_symlink": true, "path_rename": true,
}

// newHostCall makes the listener of a function.
func newHostCall(def api.FunctionDefinition) experimental.FunctionListener {
	name := def.Name()
	return hostCall{
		charge: charges[name], errno: errnoFunctions[name], closes: name == "fd_close", vectors: vectors[name],
		renumbers: name == "fd_renumber", opens: name == "path_open", flags: name == "fd_fdstat_set_flags", crosses: name == "path_rename" || name == "path_link",
	}
}

// hostCall charges a call of a WASI function. Where errno is set it also replaces
// "I/O error", which is what wazero makes of an error it cannot express, by the
// number that rootfs noted. wazero hands After the very slots the results are taken
// from; should that change, the guest sees the I/O error, and TestPythonDiskFull
// notices.
type hostCall struct {
	charge    charge
	errno     bool
	closes    bool
	vectors   bool
	renumbers bool
	opens     bool
	flags     bool
	crosses   bool // takes two directories, which may be of two mounts
}

// noDescriptor is one that no guest has open.
const noDescriptor = 1<<32 - 1

func (h hostCall) Before(ctx context.Context, m api.Module, _ api.FunctionDefinition, params []uint64, _ experimental.StackIterator) {
	r := stateOf(ctx)
	if r == nil {
		return
	}
	r.errno, r.refused = 0, h.beyond(params)
	if r.refused != 0 {
		spoil(params)
		r.Charge(m, CallUnits)
		return
	}
	if h.charge.done > 0 {
		r.done = uint32(params[h.charge.done])
	}
	switch {
	case h.opens:
		r.opened, r.opening = nil, uint32(params[openedDescriptor])
	case len(r.controls) > 0:
		h.control(r, params)
	}
	if h.closes && r.KeepStdio && uint32(params[0]) <= 2 {
		params[0] = noDescriptor // likewise the very slots that the function reads
	}
	r.Charge(m, h.charge.before(m.Memory(), params))
}

func (h hostCall) After(ctx context.Context, m api.Module, _ api.FunctionDefinition, results []uint64) {
	r := stateOf(ctx)
	if r == nil || len(results) == 0 {
		return
	}
	if uint32(results[0]) != 0 && ctx.Err() != nil {
		interrupt() // or the program would take the end of its run for an error
	}
	if r.refused != 0 {
		results[0] = uint64(r.refused)
		return
	}
	if h.opens && r.opened != nil && uint32(results[0]) == 0 {
		fd, _ := m.Memory().ReadUint32Le(r.opening)
		r.opens(fd)
	}
	if r.answered {
		r.answered, results[0] = false, 0
	}
	if h.charge.done > 0 && uint32(results[0]) == 0 {
		n, _ := m.Memory().ReadUint32Le(r.done)
		r.Charge(m, max(h.charge.each, ByteUnits)*int64(n))
	}
	if h.crosses && uint32(results[0]) == wasiNoSys {
		results[0] = wasiCrossDevice // programs copy when they are told so
	}
	if h.errno && r.errno != 0 && uint32(results[0]) == wasiIO {
		results[0] = uint64(r.errno)
	}
}

// openedDescriptor is the parameter of path_open that says where the descriptor goes.
const openedDescriptor = 8

// control follows what the guest does with the descriptors of control files, and
// answers what wazero has no answer to: only files of its own are made not to wait.
func (h hostCall) control(r *Run, params []uint64) {
	fd := uint32(params[0])
	f := r.controls[fd]
	switch {
	case h.closes:
		delete(r.controls, fd)
	case h.renumbers && uint32(params[1]) != fd:
		delete(r.controls, uint32(params[1]))
		if delete(r.controls, fd); f != nil {
			r.controls[uint32(params[1])] = f
		}
	case h.flags && f != nil:
		f.nonblock = uint32(params[1])&flagNonblock != 0
		r.answered = true
		spoil(params)
	}
}

// flagNonblock is the descriptor flag of WASI.
const flagNonblock = 4

func (hostCall) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}
