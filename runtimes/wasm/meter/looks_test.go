package meter

import (
	"context"
	"testing"
)

// looks counts how often a call looks at the counter: with a counter that stays
// below zero, the host is called each time.
func looks(t *testing.T, module []byte, name string, args ...uint64) int {
	t.Helper()
	n := 0
	r := newRuntime(t)
	onSlice(t, r, func(_ context.Context, c Counter) { n++ })
	m := instantiate(t, r, rewrite(t, module, Options{Fuel: &Fuel{Seed: 1}}).Module)
	left := int64(-1)
	counterOf(m).Set(uint64(left))
	if _, trapped := call(m, name, args...); trapped != "" {
		t.Fatal(trapped)
	}
	return n
}

// TestLooks says where code looks at the counter, and where it need not.
func TestLooks(t *testing.T) {
	a := &assembler{count: true}
	a.mem(64, 64)
	work := func(b *buffer, units int) { // straight, nothing on the stack
		b.i32(0)
		for range units - 2 {
			b.op(opI32Eqz)
		}
		b.op(opDrop)
	}
	quiet := a.exportFn("quiet", "", "", "", func(b *buffer) { work(b, 150) })
	a.exportFn("long", "", "", "", func(b *buffer) { work(b, 300) })
	a.exportFn("calls quiet", "", "", "", func(b *buffer) { b.call(quiet) })
	a.exportFn("calls two", "", "", "", func(b *buffer) { b.call(quiet); b.call(quiet) })
	conditional := func(name string, body func(*buffer)) {
		a.exportFn(name, "i", "", "", func(b *buffer) {
			b.get(0)
			b.op(opIf, blockVoid)
			body(b)
			b.op(opEnd)
			work(b, 300) // not quiet itself
		})
	}
	conditional("short piece", func(b *buffer) { work(b, 60) })
	conditional("long piece", func(b *buffer) { work(b, 400) })
	conditional("piece with a quiet call", func(b *buffer) { b.call(quiet) })
	conditional("piece with sixty", func(b *buffer) {
		for range 60 {
			b.call(quiet)
		}
	})
	recursive := func(name string, after int) {
		self := a.imported + uint32(len(a.functions))
		a.exportFn(name, "i", "", "", func(b *buffer) {
			b.get(0)
			b.op(opIf, blockVoid)
			b.get(0)
			b.i32(1)
			b.op(opI32Sub)
			b.call(self)
			work(b, after)
			b.op(opEnd)
		})
	}
	recursive("little after", 100)
	recursive("much after", 200)
	a.exportFn("loop", "i", "", "", func(b *buffer) {
		b.op(opLoop, blockVoid)
		b.get(0)
		b.i32(1)
		b.op(opI32Sub)
		b.tee(0)
		b.op(opBrIf, 0, opEnd)
	})
	a.exportFn("fill", "i", "", "", func(b *buffer) {
		b.i32(0)
		b.i32(0)
		b.get(0)
		b.op(opPrefixMisc, miscMemoryFill, 0)
	})
	module := a.bytes()
	for _, c := range []struct {
		name string
		args []uint64
		want int
	}{
		{"quiet", nil, 0},
		{"long", nil, 1},
		{"calls quiet", nil, 0},
		{"calls two", nil, 1},
		{"short piece", []uint64{1}, 1},
		{"long piece", []uint64{1}, 2},
		{"long piece", []uint64{0}, 1},
		{"piece with a quiet call", []uint64{1}, 1},
		{"piece with sixty", []uint64{1}, 1 + 2}, // after every 28th
		// At the entry of each of eleven calls, ahead of the piece in ten, and at the
		// exit of all.
		{"little after", []uint64{10}, 11 + 10},
		{"much after", []uint64{10}, 11 + 10 + 11},
		{"loop", []uint64{10}, 1 + 10},
		{"fill", []uint64{100}, 1 + 1},
		{"fill", []uint64{sliceBytes}, 1 + 1},
		{"fill", []uint64{sliceBytes + 1}, 1 + 2},
		{"fill", []uint64{4 << 20}, 1 + 4},
	} {
		if got := looks(t, module, c.name, c.args...); got != c.want {
			t.Errorf("%s%v looks %d times, not %d", c.name, c.args, got, c.want)
		}
	}
}
