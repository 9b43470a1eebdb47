package meter

import "strconv"

// Limits bound what Rewrite reads, and with it what it spends and what a runtime
// spends on compiling the result. A zero field means its default. The defaults are
// those that browsers agreed on, where they agreed on one
// (https://webassembly.github.io/spec/js-api/#limits), so that a module from an
// ordinary compiler passes.
type Limits struct {
	// ModuleBytes bounds the module, and what is written, by default 256 MiB.
	ModuleBytes int
	// FunctionBytes bounds the body of one function, by default 7,654,321.
	FunctionBytes int
	// Types, Imports, Functions, Globals, Exports and the segments bound how many a
	// module declares, by default 1,000,000 of each, and 100,000 imports, exports
	// and data segments.
	Types, Imports, Functions, Globals, Exports uint32
	DataSegments, ElementSegments               uint32
	// Elements bounds an element segment, by default 10,000,000.
	Elements uint32
	// Locals bounds the local variables of one function, by default 50,000.
	Locals uint32
	// Nesting bounds how deep blocks nest, by default 50,000.
	Nesting int
	// BranchTargets bounds one br_table, by default 65,520.
	BranchTargets uint32
}

// What is fixed: nothing is spent on these elsewhere.
const (
	maxParams         = 1000
	maxTables         = 100_000
	maxCustomSections = 10_000
)

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	def := func(v *uint32, d uint32) {
		if *v == 0 {
			*v = d
		}
	}
	defInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	defInt(&l.ModuleBytes, 256<<20)
	defInt(&l.FunctionBytes, 7_654_321)
	defInt(&l.Nesting, 50_000)
	def(&l.Types, 1_000_000)
	def(&l.Imports, 100_000)
	def(&l.Functions, 1_000_000)
	def(&l.Globals, 1_000_000)
	def(&l.Exports, 100_000)
	def(&l.DataSegments, 100_000)
	def(&l.ElementSegments, 1_000_000)
	def(&l.Elements, 10_000_000)
	def(&l.Locals, 50_000)
	def(&l.BranchTargets, 65_520)
	return l
}

func itoa(n int) string { return strconv.Itoa(n) }
