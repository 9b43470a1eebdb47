package meter

import (
	"math/rand/v2"
	"testing"
)

// program writes random code that counts its own instructions: each straight piece
// adds their number, with those that count, to global 0. Global 1 bounds how often
// loops repeat.
type program struct {
	rng       *rand.Rand
	b         *buffer
	labels    []byte // what is open: opBlock or opLoop
	pending   buffer // the straight piece being written
	cost      int32
	functions uint32
	self      uint32
}

// emit adds instructions to the piece.
func (p *program) emit(cost int32, write func(*buffer)) {
	write(&p.pending)
	p.cost += cost
}

// flush writes the piece, counting cost more for the instruction that ends it.
func (p *program) flush(more int32) {
	p.b.op(opGlobalGet, 0)
	p.b.i64(int64(p.cost + more + 4))
	p.b.op(opI64Add, opGlobalSet, 0)
	p.b.raw(p.pending)
	p.pending, p.cost = nil, 0
}

// condition leaves a number on the stack that changes from one time to the next.
func (p *program) condition() {
	bit := int64(p.rng.IntN(7))
	p.emit(6, func(b *buffer) {
		b.op(opGlobalGet, 0)
		b.i64(bit)
		b.op(opI64ShrU, 0xa7) // i32.wrap_i64
		b.i32(1)
		b.op(0x71) // i32.and
	})
}

func (p *program) block(budget int) {
	for range 1 + p.rng.IntN(5) {
		if budget <= 0 {
			break
		}
		p.statement(budget / 2)
		budget -= 3
	}
}

func (p *program) open(op byte) {
	p.b.op(op, blockVoid)
	p.labels = append(p.labels, op)
}

func (p *program) end() {
	p.flush(0)
	p.b.op(opEnd)
	p.labels = p.labels[:len(p.labels)-1]
}

// forward picks a label that leads out of something. Every function has one.
func (p *program) forward() uint32 {
	for {
		if l := p.rng.IntN(len(p.labels)); p.labels[len(p.labels)-1-l] != opLoop {
			return uint32(l)
		}
	}
}

func (p *program) statement(budget int) {
	switch p.rng.IntN(10) {
	case 0, 1, 2:
		for range 1 + p.rng.IntN(30) {
			p.emit(2, func(b *buffer) { b.i32(1); b.op(opDrop) })
		}
	case 3:
		p.flush(0)
		p.open(opBlock)
		p.block(budget)
		p.end()
	case 4: // if, with or without else
		p.condition()
		p.flush(1)
		p.open(opIf)
		p.block(budget)
		if p.rng.IntN(2) == 0 {
			p.flush(0)
			p.b.op(opElse)
			p.block(budget)
		}
		p.end()
	case 5: // a loop that ends when the budget does, or by chance
		p.flush(0)
		p.open(opLoop)
		p.block(budget)
		p.emit(7, func(b *buffer) {
			b.op(opGlobalGet, 1)
			b.i64(1)
			b.op(opI64Sub, opGlobalSet, 1, opGlobalGet, 1)
			b.i64(0)
			b.op(0x55) // i64.gt_s
		})
		p.condition()
		p.emit(1, func(b *buffer) { b.op(0x71) })
		p.flush(1)
		p.b.op(opBrIf, 0)
		p.end()
	case 6:
		p.condition()
		p.flush(1)
		p.b.op(opBrIf)
		p.b.u32(p.forward())
	case 7: // a br_table into nested blocks, and out of them
		n := 1 + p.rng.IntN(4)
		p.flush(0)
		for range n {
			p.open(opBlock)
		}
		p.condition()
		p.condition()
		p.emit(1, func(b *buffer) { b.op(opI32Add) })
		p.flush(1)
		p.b.op(opBrTable)
		p.b.u32(uint32(n))
		for i := range n {
			p.b.u32(uint32(i))
		}
		p.b.u32(p.forward())
		p.end()
		for range n - 1 {
			p.block(budget)
			if p.rng.IntN(2) == 0 {
				p.flush(1)
				p.b.op(opBr)
				p.b.u32(p.forward())
			}
			p.end()
		}
	case 8: // a call of a later function
		if p.self+1 < p.functions {
			p.flush(1)
			p.b.call(p.self + 1 + p.rng.Uint32N(p.functions-p.self-1))
		}
	case 9: // return, sometimes
		p.condition()
		p.flush(1)
		p.open(opIf)
		p.flush(1)
		p.b.op(opReturn)
		p.end()
	}
}

// TestFuelCountsInstructions compares the fuel that random programs use with the
// number of instructions they count themselves.
func TestFuelCountsInstructions(t *testing.T) {
	seeds := 300
	if brief() {
		seeds = 40
	}
	var fuelSum, countSum int64
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 9))
		a := &assembler{}
		for _, v := range []int64{0, 2000} {
			a.globals = append(a.globals, entry(func(b *buffer) { b.op(i64Type, 1); b.i64(v); b.op(opEnd) }))
		}
		a.export("count", kindGlobal, 0)
		functions := uint32(1 + rng.IntN(6))
		for f := range functions {
			body := func(b *buffer) {
				p := &program{rng: rng, b: b, functions: functions, self: f}
				p.open(opBlock)
				p.block(40)
				p.end()
			}
			if f == 0 {
				a.exportFn("run", "", "", "", body)
			} else {
				a.fn("", "", "", body)
			}
		}
		plain := instantiate(t, newRuntime(t), a.bytes())
		if _, trapped := call(plain, "run"); trapped != "" {
			t.Fatalf("seed %d: %s", seed, trapped)
		}
		want := int64(plain.ExportedGlobal("count").Get())
		var used [2]int64
		for i, slice := range []int64{1, 1 << 40} {
			m, account := accounted(t, a.bytes(), slice, 0)
			if _, trapped := call(m, "run"); trapped != "" {
				t.Fatalf("seed %d: %s", seed, trapped)
			}
			used[i] = account.Used(counterOf(m))
			count := int64(m.ExportedGlobal("count").Get())
			if count != want {
				t.Errorf("seed %d: %d instructions, %d without metering", seed, count, want)
			}
			if used[i] < count || used[i] > 2*count {
				t.Errorf("seed %d: %d units for %d instructions", seed, used[i], count)
			}
			fuelSum += used[i]
			countSum += count
		}
		if used[0] != used[1] {
			t.Errorf("seed %d: %d units in slices of 1, else %d", seed, used[0], used[1])
		}
	}
	t.Logf("%d instructions, %.3f units each", countSum, float64(fuelSum)/float64(countSum))
}
