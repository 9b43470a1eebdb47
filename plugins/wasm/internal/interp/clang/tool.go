package clang

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/tetratelabs/wazero"
	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// Bounds of one run of a tool. They do not depend on the limits of the program that
// is compiled, so that a small limit does not keep it from being compiled.
const (
	toolMemory = 768 << 20
	// toolFuel is about a minute of the compiler on a common machine.
	toolFuel = 30 * guest.FuelPerSecond
	// maxMessages bounds what a tool says.
	maxMessages = 1 << 20
	// maxObject bounds an object file, maxModule a program. Both hold the program's
	// global variables, zeros included.
	maxObject = 64 << 20
	maxModule = 64 << 20
)

// mount is a file system and where a tool sees it.
type mount struct {
	path string
	fs   esys.FS
}

// invocation is one run of a tool.
type invocation struct {
	module *codecache.Module
	argv   []string
	mounts []mount
	out    *sink // standard output; nil discards
	msgs   *sink // standard error
	fuel   int64 // what may be used
}

// run runs a tool in a fresh instance; an error is the host's fault. Nothing of what
// the caller's program will see is there but what mounts have.
func (v *invocation) run(ctx context.Context, r *guest.Run) (guest.Result, error) {
	p := guest.Program{Argv: v.argv, MemoryBytes: toolMemory, FuelLimit: v.fuel, Stderr: v.msgs, Data: r.Program.Data}
	if v.out != nil {
		p.Stdout = v.out
	}
	tr, err := guest.New(ctx, p, 0)
	if err != nil {
		return guest.Result{}, fmt.Errorf("clang: %w", err)
	}
	defer tr.Close()
	return invoke(ctx, tr, v.module, v.argv, v.mounts)
}

// invoke instantiates a module that sees mounts only, and calls it.
func invoke(ctx context.Context, r *guest.Run, m *codecache.Module, argv []string, mounts []mount) (guest.Result, error) {
	fs := wazero.NewFSConfig()
	for _, d := range mounts {
		fs = fs.(sysfs.FSConfig).WithSysFSMount(d.fs, d.path)
	}
	callCtx := r.Context(ctx)
	inst, err := m.Runtime.InstantiateModule(callCtx, m.Code, r.ModuleConfig(argv, nil).WithFSConfig(fs))
	if err != nil {
		return guest.Result{}, fmt.Errorf("clang: instantiate: %w", err)
	}
	defer func() { _ = inst.Close(context.WithoutCancel(ctx)) }()
	if err := guest.MoveStack(inst, exportStackPointer, toolStackBytes); err != nil {
		return guest.Result{}, fmt.Errorf("clang: %w", err)
	}
	r.Begin()
	_, err = inst.ExportedFunction("_start").Call(callCtx)
	code, exited := guest.Exit(err)
	return r.Outcome(ctx, exited || err == nil, code, err), nil
}

// toolStackBytes is the size of a tool's C stack. Their own have 256 KiB and lie above
// their data, which what recurses deeper, as compilers do for nested expressions and
// templates, would overwrite.
const toolStackBytes = 8 << 20

const exportStackPointer = "caisson_stack_pointer"

// toolExports has the pointer to the C stack, which in both tools is the one global.
var toolExports = []meter.Export{{Name: exportStackPointer, Kind: meter.Global, Index: 0}}

// sources are the directories of a run as tools see them: read-only.
func sources(r *guest.Run) []mount {
	var out []mount
	for i, d := range []struct {
		path string
		root *os.Root
	}{{guest.DataDir, r.Program.Data.Root}, {guest.TmpDir, r.Program.Tmp.Root}, {guest.EntryDir, r.Program.Entry}} {
		if d.root != nil {
			fs := rootfs.New(d.root, nil, rootfs.Options{ReadOnly: true})
			out = append(out, mount{d.path, newNumbered(fs, uint64(10+i))})
		}
	}
	return out
}

// add enters the outcome of a further tool into that of the whole command.
func add(total *guest.Result, res guest.Result) {
	fuel := total.Fuel + res.Fuel
	peak := max(total.PeakMemoryBytes, res.PeakMemoryBytes)
	outputErr := errors.Join(total.OutputErr, res.OutputErr)
	*total = res
	total.Fuel, total.PeakMemoryBytes, total.OutputErr = fuel, peak, outputErr
	total.MemoryLimited = false // the limit was not the program's
}

// say writes a line of the driver's own.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format+"\n", args...)
}
