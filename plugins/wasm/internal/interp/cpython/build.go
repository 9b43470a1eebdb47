package cpython

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// Build is one build of CPython 3.11, and what about it differs from another.
type Build struct {
	wasm []byte

	// library is the standard library, nil if the module contains it; libraryDir is
	// where the interpreter looks for it, and identity stands for its content.
	library    fs.FS
	libraryDir string
	identity   []byte

	// run and stackPointer are the exports that a snapshot needs: the function
	// PyRun_SimpleStringFlags and the pointer to the C stack. call, which does without
	// compiling a text, is _PyObject_CallNoArgs; it may be missing. added are those
	// that the module does not export by itself.
	run, call, stackPointer string
	added                   []meter.Export

	// stackBytes is the size of a C stack to be used in place of the module's own; 0
	// leaves it.
	stackBytes int64
}

// Pinned is the build that packs.Table pins. It contains the standard library.
//
// It has no names, and exports nothing that a snapshot needs: the indexes are those of
// the functions, of which the shorter is one of several copies. Its own stack of
// 512 KiB ends after some 300 nested calls between C and Python, long before CPython's
// own limit of 1000 that makes a RecursionError of it. A program that raises the limit
// and then recurses through C beyond the larger stack overwrites its own data, where a
// native process would crash; the host does not notice.
func Pinned(wasm []byte) Build {
	const run, call, stackPointer = "caisson_run", "caisson_call", "caisson_stack_pointer"
	return Build{
		wasm: wasm, run: run, call: call, stackPointer: stackPointer,
		added: []meter.Export{
			{Name: run, Kind: meter.Function, Index: 3666},
			{Name: call, Kind: meter.Function, Index: 352},
			{Name: stackPointer, Kind: meter.Global, Index: 0},
		},
		stackBytes: 16 << 20,
	}
}

// Optimised is the build that plugins/wasm/packs/debian makes, with its standard
// library, which CPython finds in dir. exports are the names of what the module
// exports for snapshots: "run", "stackPointer" and perhaps "call". identity stands for the build. The
// module has a stack large enough, below its data, where going beyond it is a crash.
func Optimised(wasm []byte, library fs.FS, dir string, exports map[string]string, identity []byte) Build {
	return Build{
		wasm: wasm, library: library, libraryDir: dir, identity: identity,
		run: exports["run"], call: exports["call"], stackPointer: exports["stackPointer"],
	}
}

// check compares the compiled module with what the build says of it.
func (b Build) check(m *codecache.Module) error {
	if m.Code.ExportedMemories()["memory"] == nil || m.Data == nil {
		return errors.New("the module has no memory or no data of its own")
	}
	for name, params := range map[string]int{b.run: 2, b.call: 1} {
		f := m.Code.ExportedFunctions()[name]
		if name != "" && (f == nil || len(f.ParamTypes()) != params || len(f.ResultTypes()) != 1) {
			return fmt.Errorf("the module exports no function %q of %d parameters and one result", name, params)
		}
	}
	return nil
}

// startMemory is what an instance needs before the interpreter allocates anything.
func (b Build) startMemory(m *codecache.Module) int64 {
	return int64(m.Code.ExportedMemories()["memory"].Min())*region.PageBytes + b.stackBytes + startBytes
}

// moveStack gives a new instance the build's stack, if it is not the module's own.
func (b Build) moveStack(inst api.Module) error {
	if b.stackBytes == 0 {
		return nil
	}
	return guest.MoveStack(inst, b.stackPointer, b.stackBytes)
}
