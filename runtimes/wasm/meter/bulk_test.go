package meter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// bulkModule exports each bulk instruction under its name, and get and set for the
// tables. It has 5 MiB of memory, a data segment of 3 MiB and one of 100 bytes,
// tables of 400,000 elements, and element segments of 200,000 and of 10.
func bulkModule() []byte {
	a := &assembler{count: true}
	const tableSize, long, short = 400_000, 200_000, 10
	a.mem(80, 80)
	a.table(funcref, tableSize, tableSize)
	a.table(funcref, tableSize, tableSize)
	three := func(name string, code ...byte) {
		a.exportFn(name, "iii", "", "", func(b *buffer) {
			b.get(0)
			b.get(1)
			b.get(2)
			b.op(code...)
		})
	}
	three("memory.fill", opPrefixMisc, miscMemoryFill, 0)
	three("memory.copy", opPrefixMisc, miscMemoryCopy, 0, 0)
	three("memory.init", opPrefixMisc, miscMemoryInit, 0, 0)
	three("memory.init.short", opPrefixMisc, miscMemoryInit, 1, 0)
	three("table.copy", opPrefixMisc, miscTableCopy, 0, 0)
	three("table.copy.other", opPrefixMisc, miscTableCopy, 0, 1)
	three("table.init", opPrefixMisc, miscTableInit, 0, 0)
	three("table.init.short", opPrefixMisc, miscTableInit, 1, 1)
	a.exportFn("data.drop", "", "", "", func(b *buffer) { b.op(opPrefixMisc, miscDataDrop, 0) })
	a.exportFn("elem.drop", "", "", "", func(b *buffer) { b.op(opPrefixMisc, miscElemDrop, 0) })
	// Functions that return their own number, to tell elements apart.
	const kinds = 16
	var first uint32
	for i := range int32(kinds) {
		f := a.fn("", "i", "", func(b *buffer) { b.i32(i) })
		if i == 0 {
			first = f
		}
	}
	t := a.typ("", "i")
	a.exportFn("table.fill", "iii", "", "", func(b *buffer) {
		b.get(0)
		b.get(1)
		b.op(opTableGet, 1)
		b.get(2)
		b.op(opPrefixMisc, miscTableFill, 0)
	})
	// Calls the element, or returns -1 for null.
	a.exportFn("get", "i", "i", "", func(b *buffer) {
		b.get(0)
		b.op(opTableGet, 0, opRefIsNull, opIf, i32Type)
		b.i32(-1)
		b.op(opElse)
		b.get(0)
		b.op(opCallIndirect)
		b.u32(t)
		b.op(0, opEnd)
	})
	// hash goes over table 0: h = h*31 + element.
	get := a.imported + uint32(len(a.functions)) - 1
	a.exportFn("hash", "", "i", "ii", func(b *buffer) {
		b.op(opLoop, blockVoid)
		b.get(1)
		b.i32(31)
		b.op(opI32Mul)
		b.get(0)
		b.call(get)
		b.op(opI32Add)
		b.set(1)
		b.get(0)
		b.i32(1)
		b.op(opI32Add)
		b.tee(0)
		b.i32(tableSize)
		b.op(opI32LtU, opBrIf, 0, opEnd)
		b.get(1)
	})
	for _, n := range []int{long, short} {
		a.elements = append(a.elements, entry(func(b *buffer) {
			b.op(1, 0)
			b.u32(uint32(n))
			for i := range n {
				b.u32(first + uint32(i*7%kinds))
			}
		}))
	}
	// Table 1 is filled at the start, in another pattern.
	a.elements = append(a.elements, entry(func(b *buffer) {
		b.op(2)
		b.u32(1)
		b.i32(1000)
		b.op(opEnd, 0)
		b.u32(long)
		for i := range long {
			b.u32(first + uint32(i*i%kinds))
		}
	}))
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{3 << 20, 100} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		a.passive(data)
	}
	return a.bytes()
}

// TestBulkSame does bulk instructions with random operands on a module and on the
// same rewritten, and compares memory, tables and traps. Operands are mostly long
// ones that overlap or just leave the space.
func TestBulkSame(t *testing.T) {
	module := bulkModule()
	plain := instantiate(t, newRuntime(t), module)
	slices := metered(t, module, 1000)

	rng := rand.New(rand.NewPCG(3, 4))
	const memory, table = 80 << 16, 400_000
	near := func(n, limit uint32) uint32 { // around a border
		return uint32(int64(n)+int64(rng.IntN(5))-2) % (limit + 3)
	}
	pick := func(limit, slice uint32) uint32 {
		switch rng.IntN(8) {
		case 0:
			return near(0, limit)
		case 1:
			return near(limit, limit)
		case 2:
			return near(slice, limit)
		case 3:
			return near(2*slice, limit)
		case 4:
			return rng.Uint32()
		default:
			return rng.Uint32N(limit)
		}
	}
	for _, op := range []struct {
		name         string
		limit, slice uint32
		from         uint32 // the space of the second operand
		rounds       int
	}{
		{"memory.fill", memory, sliceBytes, 1 << 31, 60},
		{"memory.copy", memory, sliceBytes, memory, 120},
		{"memory.init", memory, sliceBytes, 3 << 20, 60},
		{"memory.init.short", memory, 50, 100, 60},
		{"table.init", table, sliceBytes / refBytes, 200_000, 25},
		{"table.init.short", table, 5, 10, 10},
		{"table.copy", table, sliceBytes / refBytes, table, 60},
		{"table.copy.other", table, sliceBytes / refBytes, table, 25},
		{"table.fill", table, sliceBytes / refBytes, table, 25},
	} {
		t.Run(op.name, func(t *testing.T) {
			if brief() {
				op.rounds = max(op.rounds/4, 10)
			}
			trapped, done := 0, 0
			for range op.rounds {
				to, from, n := pick(op.limit, op.slice), pick(op.from, op.slice), pick(op.limit, op.slice)
				if rng.IntN(3) > 0 && op.from == op.limit {
					// Overlapping: a little further up or down.
					from = to + uint32(rng.IntN(int(op.slice))) - op.slice/2
				}
				if rng.IntN(3) > 0 {
					// Within bounds, more often than chance would have it.
					to, n = to%op.limit, n%(op.limit/2)
					to = min(to, op.limit-n)
					if op.name != "memory.fill" && op.name != "table.fill" {
						n = min(n, op.from)
						from = min(from%op.from, op.from-n)
					}
				}
				if op.name == "table.fill" {
					from %= op.limit
				}
				_, want := call(plain, op.name, uint64(to), uint64(from), uint64(n))
				_, got := call(slices, op.name, uint64(to), uint64(from), uint64(n))
				where := fmt.Sprintf("%s(%d, %d, %d)", op.name, to, from, n)
				if want != got {
					t.Fatalf("%s: %q, rewritten %q", where, want, got)
				}
				if want == "" {
					done++
				} else {
					trapped++
				}
				compareState(t, where, plain, slices)
			}
			if done < 3 || trapped < 1 && !brief() {
				t.Errorf("%d calls succeeded and %d trapped: that is no test", done, trapped)
			}
		})
	}

	t.Run("dropped", func(t *testing.T) {
		for _, m := range []api.Module{plain, slices} {
			call(m, "data.drop")
			call(m, "elem.drop")
		}
		for _, name := range []string{"memory.init", "table.init"} {
			for _, n := range []uint64{0, 1, 190_000, 2 << 20} {
				_, want := call(plain, name, 5, 0, n)
				_, got := call(slices, name, 5, 0, n)
				if want != got || (want == "") != (n == 0) {
					t.Errorf("%s of %d from a dropped segment: %q, rewritten %q", name, n, want, got)
				}
			}
		}
		compareState(t, "after drops", plain, slices)
	})
}

func compareState(t *testing.T, where string, a, b api.Module) {
	t.Helper()
	x, _ := a.Memory().Read(0, a.Memory().Size())
	y, _ := b.Memory().Read(0, b.Memory().Size())
	if !bytes.Equal(x, y) {
		t.Fatalf("%s: memory differs", where)
	}
	h, _ := call(a, "hash")
	k, _ := call(b, "hash")
	if !slices.Equal(h, k) {
		t.Fatalf("%s: tables differ", where)
	}
}
