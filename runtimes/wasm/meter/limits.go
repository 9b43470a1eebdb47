package meter

import (
	"math"
	"strconv"
)

// Limits bound what Rewrite reads, and with it what it spends and what a runtime
// spends on compiling the result. A zero field means its default. The defaults are
// those that browsers agreed on (https://webassembly.github.io/spec/js-api/#limits),
// but where wazero needs more time than in proportion: there they are several times
// what the largest compilers and interpreters need that were compiled to
// WebAssembly, and one function at the limit compiles in seconds.
type Limits struct {
	// ModuleBytes bounds the module, and what is written, by default 256 MiB. More
	// than 2 GiB mean 2 GiB.
	ModuleBytes int
	// FunctionBytes bounds the body of one function, by default 2 MiB. More than 64
	// MiB mean 64 MiB.
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
	// Nesting bounds how deep blocks, loops and ifs nest, by default 4,096, and
	// LoopNesting how deep loops do, by default 256.
	Nesting, LoopNesting int
	// AllLocals bounds the local variables of all functions together, by default
	// 10,000,000.
	AllLocals uint32
	// Ways bounds how many branches, targets of branch tables, ifs, elses and loops one
	// function has, by default 60,000.
	Ways uint32
	// Joins bounds how many local variables of one function are read behind how many
	// places where ways of control meet, each with each, and more for loops in loops;
	// Operands how many values its calls, blocks and branches take and return. By
	// default 4,000,000 and 200,000: a compiler makes a value of each, and takes some
	// microseconds.
	Joins, Operands uint64
	// BranchTargets bounds the targets of the br_table instructions of one function,
	// by default 16,384.
	BranchTargets uint32
}

// What is fixed: nothing is spent on these elsewhere.
const (
	maxFunctionBytes  = 64 << 20
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
	defInt(&l.FunctionBytes, 2<<20)
	l.FunctionBytes = min(l.FunctionBytes, maxFunctionBytes)
	l.ModuleBytes = min(l.ModuleBytes, math.MaxInt32)
	defInt(&l.Nesting, 4096)
	defInt(&l.LoopNesting, 256)
	def(&l.Types, 1_000_000)
	def(&l.Imports, 100_000)
	def(&l.Functions, 1_000_000)
	def(&l.Globals, 1_000_000)
	def(&l.Exports, 100_000)
	def(&l.DataSegments, 100_000)
	def(&l.ElementSegments, 1_000_000)
	def(&l.Elements, 10_000_000)
	def(&l.Locals, 50_000)
	def(&l.AllLocals, 10_000_000)
	def(&l.Ways, 60_000)
	if l.Joins == 0 {
		l.Joins = 4_000_000
	}
	if l.Operands == 0 {
		l.Operands = 200_000
	}
	def(&l.BranchTargets, 16_384)
	return l
}

func itoa(n int) string { return strconv.Itoa(n) }
