package meter

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// spinner exports functions that take long, in the ways there are.
func spinner() []byte {
	a := &assembler{count: true}
	a.mem(64, 0)
	a.table(funcref, 8, 100_000)
	a.exportFn("loop", "i", "", "", func(b *buffer) { // n times
		b.op(opLoop, blockVoid)
		b.get(0)
		b.i32(1)
		b.op(opI32Sub)
		b.tee(0)
		b.op(opBrIf, 0, opEnd)
	})
	tree := a.imported + uint32(len(a.functions))
	a.exportFn("tree", "i", "", "", func(b *buffer) { // 2^n calls, no loop
		b.get(0)
		b.op(opIf, blockVoid)
		for range 2 {
			b.get(0)
			b.i32(1)
			b.op(opI32Sub)
			b.call(tree)
		}
		b.op(opEnd)
	})
	tail := tree + 1
	a.exportFn("tail", "i", "", "", func(b *buffer) { // n tail calls
		b.get(0)
		b.op(opIf, blockVoid)
		b.get(0)
		b.i32(1)
		b.op(opI32Sub, opReturnCall)
		b.u32(tail)
		b.op(opEnd)
	})
	a.exportFn("fill", "i", "", "", func(b *buffer) { // n bytes
		b.i32(0)
		b.i32(1)
		b.get(0)
		b.op(opPrefixMisc, miscMemoryFill, 0)
	})
	a.exportFn("grow", "i", "i", "", func(b *buffer) { // n pages
		b.get(0)
		b.op(opMemoryGrow, 0)
	})
	a.exportFn("table.grow", "i", "i", "", func(b *buffer) { // n elements
		b.op(opRefNull, funcref)
		b.get(0)
		b.op(opPrefixMisc, miscTableGrow, 0)
	})
	return a.bytes()
}

func TestFuelCosts(t *testing.T) {
	for _, c := range []struct {
		name string
		arg  uint64
		want int64
	}{
		{"loop", 1, 5},
		{"loop", 1000, 5000},
		// get, if; if taken: two times get, const, sub, call.
		{"tree", 0, 2},
		{"tree", 3, 15*2 + 7*8},
		{"tail", 10, 11*2 + 10*4},
		// const, const, get, fill; 16 for each slice, and a unit for 8 bytes.
		{"fill", 0, 4 + 16},
		{"fill", 160, 4 + 16 + 20},
		{"fill", sliceBytes, 4 + 16 + sliceBytes/8},
		{"fill", 2*sliceBytes + 16, 4 + 3*16 + 2*sliceBytes/8 + 2},
		{"fill", 64 << 16, 4 + 4*16 + 64<<16/8}, // up to the end of memory
		{"grow", 0, 2 + 256},
		{"grow", 3, 2 + 256 + 3*8192},
		{"grow", 70_000, 2 + 256}, // which fails
		{"table.grow", 10, 3 + 256 + 10},
		{"table.grow", 200_000, 3 + 256},
	} {
		m, account := accounted(t, spinner(), 7, 0)
		if _, trapped := call(m, c.name, c.arg); trapped != "" {
			t.Fatalf("%s(%d): %s", c.name, c.arg, trapped)
		}
		got := account.Used(counterOf(m))
		// Small conditional pieces are charged ahead: up to twice the cost of tree
		// and tail.
		if got != c.want && (c.name != "tree" && c.name != "tail" || got < c.want || got > 2*c.want) {
			t.Errorf("%s(%d) used %d units, not %d", c.name, c.arg, got, c.want)
		}
	}
}

// TestBudgetEnds runs every shape with a budget that ends in it. Where it ends must
// not depend on the slices.
func TestBudgetEnds(t *testing.T) {
	for _, name := range []string{"loop", "tree", "tail", "fill", "grow", "table.grow"} {
		arg := map[string]uint64{"tree": 60, "fill": 64 << 16, "grow": 1000, "table.grow": 90_000}[name]
		if arg == 0 {
			arg = 0xffffffff
		}
		const budget = 40_000
		var used []int64
		for _, slice := range []int64{1, 999, 1 << 40} {
			m, account := accounted(t, spinner(), slice, budget)
			_, err := m.ExportedFunction(name).Call(context.Background(), arg)
			if !errors.Is(err, ErrOutOfFuel) {
				t.Errorf("%s in slices of %d: ended with %v", name, slice, err)
			}
			used = append(used, account.Used(counterOf(m)))
			if u := used[len(used)-1]; u < budget {
				t.Errorf("%s: ended at %d of %d", name, u, budget)
			}
		}
		if !slices.Equal(used, slices.Repeat(used[:1], len(used))) {
			t.Errorf("%s: used %v, depending on the slices", name, used)
		}
		// All but growing, which is paid for when it is done, ends close to the budget.
		if over := used[0] - budget; over > 132_000 && name != "grow" {
			t.Errorf("%s: %d over budget", name, over)
		}
	}
}

func TestStartIsMetered(t *testing.T) {
	a := &assembler{}
	a.start = 1 + int(a.fn("", "", "", func(b *buffer) {
		b.op(opLoop, blockVoid, opBr, 0, opEnd)
	}))
	r := newRuntime(t)
	account := NewAccount(DefaultSeed, 10_000, 2_000_000)
	onSlice(t, r, func(_ context.Context, c Counter) {
		if err := account.Refill(c); err != nil {
			panic(err)
		}
	})
	_, err := r.InstantiateWithConfig(context.Background(), rewrite(t, a.bytes(), Options{Fuel: &Fuel{}}).Module, wazero.NewModuleConfig())
	if !errors.Is(err, ErrOutOfFuel) {
		t.Fatalf("the start function ended with %v", err)
	}
}

// TestOwnCallback has an import of the module's own called, with arguments that
// tell it from calls by the module.
func TestOwnCallback(t *testing.T) {
	a := &assembler{}
	a.importFunc("env", "other", "", "")
	yield := a.importFunc("env", "yield", "ili", "il")
	a.exportFn("run", "i", "", "", func(b *buffer) {
		b.i32(5)
		b.i64(6)
		b.i32(7)
		b.call(yield)
		b.op(opDrop, opDrop, opLoop, blockVoid)
		b.get(0)
		b.i32(1)
		b.op(opI32Sub)
		b.tee(0)
		b.op(opBrIf, 0, opEnd)
	})
	res := rewrite(t, a.bytes(), Options{Fuel: &Fuel{Own: &Own{Module: "env", Name: "yield", Args: []int64{-1, 1 << 40}}, Seed: 100}})

	r := newRuntime(t)
	account := NewAccount(100, 1000, 0)
	var calls [][3]uint64
	_, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() {}).Export("other").
		NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
		calls = append(calls, [3]uint64{stack[0] & 0xffffffff, stack[1], stack[2] & 0xffffffff})
		if err := account.Refill(counterOf(m)); err != nil {
			panic(err)
		}
		stack[0], stack[1] = 1, 2
	}), []api.ValueType{api.ValueTypeI32, api.ValueTypeI64, api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32, api.ValueTypeI64}).
		Export("yield").Instantiate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	m := instantiate(t, r, res.Module)
	if _, trapped := call(m, "run", 1000); trapped != "" {
		t.Fatal(trapped)
	}
	// 6 units before the loop and 5 for each round, in slices of 1000 after 100.
	want := [][3]uint64{{5, 6, 7}}
	for range 5 {
		want = append(want, [3]uint64{0xffffffff, 1 << 40, 0})
	}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %v, not %v", calls, want)
	}
	if used := account.Used(counterOf(m)); used != 5006 {
		t.Errorf("used %d, not 5006", used)
	}
}

// fakeCounter is a counter without a module.
type fakeCounter uint64

func (c *fakeCounter) Get() uint64  { return uint64(*c) }
func (c *fakeCounter) Set(v uint64) { *c = fakeCounter(v) }

func TestAccount(t *testing.T) {
	c := fakeCounter(50)
	a := NewAccount(50, 100, 1000)
	take := func(n int64) { c = fakeCounter(int64(c) - n) }
	step := func(spend, left int64, want error) {
		t.Helper()
		take(spend)
		if err := a.Refill(&c); !errors.Is(err, want) || int64(c) != left {
			t.Errorf("after %d units: %v with %d left, not %d", spend, err, int64(c), left)
		}
	}
	step(50, 0, nil)             // not below zero: nothing is granted
	step(1, 99, nil)             // one slice
	step(350, 49, nil)           // three at once
	step(500, 49, nil)           // five
	step(149, -50, ErrOutOfFuel) // used 1050, and no more than 1000 are granted
	if used := a.Used(&c); used != 1050 {
		t.Errorf("used %d", used)
	}

	c = fakeCounter(500)
	a = NewAccount(500, 100, 100) // the seed is more than the budget
	step(501, -1, ErrOutOfFuel)
	step(0, -1, ErrOutOfFuel)
}
