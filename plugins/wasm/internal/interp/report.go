package interp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
)

// Report says how the programs of each interpreter that is ready are started, in a
// line each, for the operator.
func (e *Engine) Report() []string {
	var out []string
	for _, pack := range slices.Sorted(maps.Keys(e.loads)) {
		in, ok := e.loads[pack].get().(interface{ Machine() *machine.Machine })
		if !ok || in.Machine() == nil {
			continue
		}
		m := in.Machine()
		if m.ImageBytes() == 0 {
			out = append(out, pack+": boots for each run")
			continue
		}
		from := "booted"
		if m.Cached() {
			from = "from the cache"
		}
		out = append(out, fmt.Sprintf("%s: image of %d MiB, %s, %v", pack, m.ImageBytes()>>20, from, m.Choice()))
	}
	return out
}
