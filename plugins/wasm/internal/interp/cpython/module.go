package cpython

import (
	"errors"

	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// stackBytes is the size of the C stack given to the interpreter. The build's
// own 512 KiB end after some 300 nested calls between C and Python, long before
// CPython's own limit of 1000 that makes a RecursionError of it. A program that
// raises the limit and then recurses through C beyond this stack overwrites its
// own data, where a native process would crash; the host does not notice.
const stackBytes = 16 << 20

// What the pinned build does not export and a snapshot needs.
const (
	exportRun          = "caisson_run"
	exportStackPointer = "caisson_stack_pointer"
)

// exports are the additions. The index of the function is that of
// PyRun_SimpleStringFlags. The build has no names; packs.Table pins the file, and a
// boot that calls anything else fails.
var exports = []meter.Export{
	{Name: exportRun, Kind: meter.Function, Index: 3666},
	{Name: exportStackPointer, Kind: meter.Global, Index: 0},
}

// startMemory is what an instance needs before the interpreter allocates anything.
func startMemory(m *codecache.Module) (int64, error) {
	mem := m.Code.ExportedMemories()["memory"]
	if mem == nil || m.Data == nil {
		return 0, errors.New("the module has no memory or no data of its own")
	}
	return int64(mem.Min())*region.PageBytes + stackBytes + startBytes, nil
}

// moveStack gives a new instance a larger stack, behind its static data. The
// allocator takes new memory from the end when it needs some, so that it never sees
// the stack.
func moveStack(inst api.Module) error {
	mem := inst.Memory()
	sp, ok := inst.ExportedGlobal(exportStackPointer).(api.MutableGlobal)
	if !ok {
		return errors.New("global 0 is no stack pointer")
	}
	if _, ok := mem.Grow(stackBytes / region.PageBytes); !ok {
		return errors.New("the memory limit is below the interpreter's own needs")
	}
	sp.Set(uint64(mem.Size()))
	return nil
}
