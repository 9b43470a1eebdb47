package meter

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
)

// body makes a module of one function with a body.
func body(locals string, write func(*buffer)) []byte {
	a := &assembler{count: true}
	a.mem(1, 0)
	a.table(funcref, 1, 0)
	a.fn("", "", locals, write)
	return a.bytes()
}

// raw makes a module of one section.
func raw(id byte, content ...byte) []byte {
	out := buffer(header)
	out.op(id)
	out.sized(content)
	return out
}

func ops(opcodes ...byte) func(*buffer) { return func(b *buffer) { b.op(opcodes...) } }

// TestRefused has everything refused by name and place.
func TestRefused(t *testing.T) {
	huge := entry(func(b *buffer) { b.u32(math.MaxUint32) })
	for _, c := range []struct {
		name   string
		module []byte
		reason error
		want   string
	}{
		{"empty", nil, ErrMalformed, "not a core module"},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), ErrMalformed, "not a core module"},
		{"throw", body("", ops(0x08, 0)), ErrUnsupported, "code section, function 0, offset 0x31: throw (exception handling)"},
		{"try_table", body("", ops(0x1f, 0x40)), ErrUnsupported, "try_table (exception handling)"},
		{"tag", raw(secTag, 0), ErrUnsupported, "tag section, offset 0x8: tags (exception handling)"},
		{"call_ref", body("", ops(0x14, 0)), ErrUnsupported, "call_ref (typed function references)"},
		{"struct.new", body("", ops(0xfb, 0, 0)), ErrUnsupported, "(garbage collection)"},
		{"atomic.fence", body("", ops(0xfe, 3, 0)), ErrUnsupported, "(threads)"},
		{"relaxed simd", body("", ops(0xfd, 0x80, 0x02)), ErrUnsupported, "opcode 0xfd 0x100 (relaxed SIMD)"},
		{"long vector opcode", body("", ops(0xfd, 0xc3, 0)), ErrUnsupported, "vector opcode 0x43 written with 2 bytes"},
		{"vector hole", body("", ops(0xfd, 0x9a, 0x01)), ErrUnsupported, "opcode 0xfd 0x9a"},
		{"wide arithmetic", body("", ops(0xfc, 0x13)), ErrUnsupported, "(wide arithmetic)"},
		{"unknown", body("", ops(0x27)), ErrUnsupported, "offset 0x31: opcode 0x27"},
		{"second memory", body("", ops(opMemorySize, 1)), ErrUnsupported, "memory 1 (multi-memory)"},
		{"memory index in a load", body("", ops(opI32Load, 0x42, 1, 0)), ErrUnsupported, "alignment 0x42 (multi-memory)"},
		{"shared memory", raw(secMemory, 1, 3, 1, 1), ErrUnsupported, "memory section, offset 0xb: limits of kind 0x3"},
		{"64-bit memory", raw(secMemory, 1, 4, 1), ErrUnsupported, "limits of kind 0x4"},
		{"two memories", raw(secMemory, 2, 0, 1, 0, 1), ErrUnsupported, "multi-memory"},
		{"type of exnref", raw(secType, 1, 0x60, 1, 0x69, 0), ErrUnsupported, "value type 0x69 (exception handling)"},
		{"recursive types", raw(secType, 1, 0x4e, 0, 0), ErrUnsupported, "type of form 0x4e (garbage collection)"},

		// What could reach past what the module declares, to what is appended.
		{"counter", body("", ops(opGlobalGet, 0, opDrop)), ErrMalformed, "global 0 does not exist, there are 0"},
		{"counter set", body("", ops(opI64Const, 9, opGlobalSet, 0)), ErrMalformed, "global 0 does not exist"},
		{"helper", body("", ops(opCall, 1)), ErrMalformed, "function 1 does not exist, there are 1"},
		{"helper reference", body("", ops(opRefFunc, 1, opDrop)), ErrMalformed, "function 1 does not exist"},
		{"helper type", body("", ops(opI32Const, 0, opCallIndirect, 1, 0)), ErrMalformed, "type 1 does not exist"},
		{"block of a helper's type", body("", ops(opBlock, 1, opEnd)), ErrMalformed, "type 1 does not exist"},
		{"export of the counter", raw(secExport, 1, 1, 'x', kindGlobal, 0), ErrMalformed, "global 0 does not exist"},
		{"export of a helper", raw(secExport, 1, 1, 'x', kindFunction, 0), ErrMalformed, "function 0 does not exist"},
		{"start with a helper", raw(secStart, 0), ErrMalformed, "function 0 does not exist"},
		{"element of a helper", raw(secElement, 1, 1, 0, 1, 0), ErrMalformed, "function 0 does not exist"},
		{"segment", body("", ops(opPrefixMisc, miscDataDrop, 0)), ErrMalformed, "data segment 0 does not exist"},

		// Structure.
		{"label", body("", ops(opBr, 1)), ErrMalformed, "label 1 does not exist, there are 1"},
		{"else", body("", ops(opElse)), ErrMalformed, "else without if"},
		{"two elses", body("", ops(opI32Const, 0, opIf, 0x40, opElse, opElse, opEnd)), ErrMalformed, "else without if"},
		{"code after the end", body("", ops(opEnd)), ErrMalformed, "1 bytes follow the content"},
		{"open block", body("", ops(opBlock, 0x40)), ErrMalformed, "content ends early"},
		{"number", body("", ops(opI32Const, 0x80, 0x80, 0x80, 0x80, 0x80, 0)), ErrMalformed, "number does not fit 32 bits"},
		{"number of 33 bits", body("", ops(opI32Const, 0xff, 0xff, 0xff, 0xff, 0x0f)), ErrMalformed, "number does not fit 32 bits"},
		{"section twice", append(raw(secStart, 0), raw(secStart, 0)[8:]...), ErrMalformed, "start section, offset 0xb: comes twice or out of order"},
		{"section order", append(raw(secCode, 0), raw(secType, 0)[8:]...), ErrMalformed, "type section, offset 0xb: comes twice or out of order"},
		{"unknown section", raw(99, 0), ErrMalformed, "section 99 does not exist"},
		{"cut section", raw(secType, 0)[:10], ErrMalformed, "announced"},
		{"section too long", raw(secType, 0, 0), ErrMalformed, "1 bytes follow the content"},
		{"no code", append(raw(secType, 1, 0x60, 0, 0), raw(secFunction, 1, 0)[8:]...), ErrMalformed, "code section: missing"},
		{"data count without data", raw(secDataCount, 1), ErrMalformed, "without a data section"},

		// Counts that lie. The runtime would allocate for some of them.
		{"types", raw(secType, huge...), ErrLimit, "4294967295 types are more than"},
		{"a million types", raw(secType, 0xc0, 0x84, 0x3d), ErrMalformed, "1000000 types do not fit the 0 bytes that follow"},
		{"elements", raw(secElement, append([]byte{1, 1, 0}, 0x80, 0xad, 0xe2, 0x04)...), ErrMalformed, "10000000 elements do not fit"},
		{"branch targets", body("", ops(opI32Const, 0, opBrTable, 0x80, 0x80, 0x01)), ErrMalformed, "16384 more branch targets do not fit"},
		{"more branch targets", body("", ops(opI32Const, 0, opBrTable, 0x81, 0x80, 0x01)), ErrLimit, "16385 more branch targets are more than 16384"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, opts := range []Options{{}, {Fuel: &Fuel{}}} {
				_, err := Rewrite(c.module, opts)
				var e *Error
				if !errors.Is(err, c.reason) || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// bombs are modules that cost more to handle than they look like.
func bombs() map[string][]byte {
	out := map[string][]byte{}

	many := &assembler{}
	for range 100_000 {
		many.fn("", "", "", func(*buffer) {})
		many.types = many.types[:1]
	}
	for i := range many.functions {
		many.functions[i] = 0
	}
	out["100,000 functions"] = many.bytes()

	chain := &assembler{}
	for i := range uint32(100_000) {
		chain.fn("", "", "", func(b *buffer) { b.call((i + 1) % 100_000) })
		chain.types = chain.types[:1]
		chain.functions[i] = 0
	}
	out["a circle of 100,000 calls"] = chain.bytes()

	out["50,000 locals"] = body(strings.Repeat("il", 25_000), func(*buffer) {})
	nested := func(op byte, deep int) []byte {
		return body("", func(b *buffer) {
			for range 100 {
				for range deep {
					b.op(op, blockVoid)
				}
				for range deep {
					b.op(opEnd)
				}
			}
		})
	}
	out["blocks nested 4,000 deep"] = nested(opBlock, 4000)
	out["loops nested 250 deep"] = nested(opLoop, 250)
	tables := func(label byte) []byte {
		a := &assembler{}
		for range 100 {
			a.fn("", "", "", func(b *buffer) {
				b.i32(1)
				b.op(opIf, blockVoid, opI32Const, 0, opBrTable)
				b.u32(16_383)
				for range 16_384 {
					b.op(label)
				}
				b.op(opEnd)
			})
		}
		return a.bytes()
	}
	out["branch tables"] = tables(0)
	out["branch tables out of the function"] = tables(1)
	out["a point for every three bytes"] = body("i", func(b *buffer) {
		for range 500_000 {
			b.get(0)
			b.op(opBrIf, 0)
		}
	})
	out["a helper for every segment"] = func() []byte {
		a := &assembler{count: true}
		a.mem(1, 0)
		for range 50_000 {
			a.passive(nil)
		}
		a.fn("", "", "", func(b *buffer) {
			for i := range uint32(50_000) {
				b.i32(0)
				b.i32(0)
				b.i32(0)
				b.op(opPrefixMisc, miscMemoryInit)
				b.u32(i)
				b.op(0)
			}
		})
		return a.bytes()
	}()
	return out
}

// unlimited has no limits on what a compiler has to do.
var unlimited = Limits{Ways: math.MaxUint32, Joins: math.MaxUint64, Operands: math.MaxUint64}

// TestBombs bounds what a byte of input can cost in memory.
func TestBombs(t *testing.T) {
	for name, module := range bombs() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			res, err := Rewrite(module, Options{Fuel: &Fuel{}, Limits: unlimited})
			runtime.ReadMemStats(&after)
			if err != nil {
				t.Fatal(err)
			}
			cost := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(module))
			t.Logf("%d bytes became %d, %.0f allocated for each", len(module), len(res.Module), cost)
			if cost > 150 {
				t.Errorf("%.0f bytes were allocated for each byte of input", cost)
			}
			if len(res.Module) > 30*len(module) {
				t.Errorf("%d bytes became %d", len(module), len(res.Module))
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name   string
		module []byte
		limits Limits
		want   string
	}{
		{"locals", body(strings.Repeat("i", 8), ops()), Limits{Locals: 7}, "8 groups of locals are more than 7"},
		{"locals in one group", bigGroup(50_001), Limits{}, "50001 locals are more than 50000"},
		{"locals beyond 32 bits", bigGroup(math.MaxUint32), Limits{}, "4294967295 locals are more than 50000"},
		{"locals of two functions", twice("iiii"), Limits{AllLocals: 7}, "locals of all functions are more than 7"},
		{"variables behind an if", body("ii", ops(opI32Const, 0, opIf, 0x40, opEnd, opLocalGet, 0, opDrop, opLocalGet, 1, opDrop)), Limits{Joins: 1}, "more than 1 local variables are live"},
		{"ways", body("", ops(opI32Const, 0, opIf, 0x40, opElse, opEnd, opLoop, 0x40, opBr, 0, opEnd)), Limits{Ways: 3}, "control parts in more than 3 ways"},
		{"variables in loops", body("i", ops(opLoop, 0x40, opLoop, 0x40, opLocalGet, 0, opDrop, opEnd, opEnd)), Limits{Joins: 3}, "more than 3 local variables are live"},
		{"operands", body("", ops(opBlock, 0x40, opI32Const, 0, opBlock, 0x7f, opI32Const, 1, opBr, 0, opEnd, opDrop, opDrop, opEnd)), Limits{Operands: 1}, "have more than 1 operands"},
		{"nesting", body("", ops(opBlock, 0x40, opBlock, 0x40, opBlock, 0x40, opEnd, opEnd, opEnd)), Limits{Nesting: 2}, "blocks nested deeper than 2"},
		{"loop nesting", body("", ops(opLoop, 0x40, opBlock, 0x40, opLoop, 0x40, opEnd, opEnd, opEnd)), Limits{LoopNesting: 1}, "loops nested deeper than 1"},
		{"targets of two tables", body("", ops(opI32Const, 0, opBrTable, 2, 0, 0, 0, opI32Const, 0, opBrTable, 2, 0, 0, 0)), Limits{BranchTargets: 3}, "2 more branch targets are more than 1"},
		{"function", body("", ops(opNop, opNop, opNop)), Limits{FunctionBytes: 4}, "5 bytes are more than 4"},
		{"module", body("", ops()), Limits{ModuleBytes: 20}, "bytes are more than 20"},
		{"result", body("", ops(opMemorySize, 0, opDrop, opMemorySize, 0, opDrop)), Limits{ModuleBytes: 80}, "rewritten: "},
		{"functions", raw(secFunction, 3, 0, 0, 0), Limits{Functions: 2}, "3 functions are more than 2"},
		{"types", raw(secType, 2, 0x60, 0, 0, 0x60, 0, 0), Limits{Types: 1}, "2 types are more than 1"},
	} {
		_, err := Rewrite(c.module, Options{Fuel: &Fuel{}, Limits: c.limits})
		if !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.limits != (Limits{}) {
			if _, err := Rewrite(c.module, Options{}); errors.Is(err, ErrLimit) {
				t.Errorf("%s: by default: %v", c.name, err)
			}
		}
	}
}

// twice makes a module of two functions with the same locals.
func twice(locals string) []byte {
	a := &assembler{}
	a.fn("", "", locals, ops())
	a.fn("", "", locals, ops())
	return a.bytes()
}

// bigGroup declares locals without writing each down.
func bigGroup(n uint32) []byte {
	a := &assembler{}
	a.fn("", "", "", func(*buffer) {})
	a.bodies[0] = entry(func(b *buffer) { b.u32(1); b.u32(n); b.op(i32Type, opEnd) })
	return a.bytes()
}

// TestCutShort cuts a module at every length: no panic, and never success.
func TestCutShort(t *testing.T) {
	module := goldenModules()["shift"].module
	for n := range module {
		if _, err := Rewrite(module[:n], Options{Fuel: &Fuel{}}); err == nil {
			// Cut between two sections it may still be one.
			if _, err := newRuntime(t).CompileModule(t.Context(), module[:n]); err != nil {
				t.Errorf("cut at %d of %d: accepted, though %v", n, len(module), err)
			}
		}
	}
}

// TestErrorText shows an error with all its parts.
func TestErrorText(t *testing.T) {
	e := &Error{Reason: ErrUnsupported, Section: "code", Function: 3, Offset: 255, Detail: "throw"}
	if got, want := fmt.Sprint(e), "unsupported WebAssembly feature: code section, function 3, offset 0xff: throw"; got != want {
		t.Errorf("%s", got)
	}
}
