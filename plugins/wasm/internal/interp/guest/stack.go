package guest

import (
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
)

// MoveStack gives a new instance a C stack of so many bytes, whole pages, behind its
// static data, in place of its own. Those of interpreters and compilers that were
// compiled with a linker's defaults are too small, and lie above data that is
// overwritten beyond them. pointer names the exported global that is the stack pointer.
//
// It is for modules whose allocator takes new memory from the end when it needs some,
// so that it never sees the stack.
func MoveStack(inst api.Module, pointer string, bytes int64) error {
	sp, ok := inst.ExportedGlobal(pointer).(api.MutableGlobal)
	if !ok {
		return fmt.Errorf("%q is no exported global that can be set", pointer)
	}
	mem := inst.Memory()
	if _, ok := mem.Grow(uint32(bytes / region.PageBytes)); !ok {
		return errors.New("the memory limit is below the interpreter's own needs")
	}
	sp.Set(uint64(mem.Size()))
	return nil
}
