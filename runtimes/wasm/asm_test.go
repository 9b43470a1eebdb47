package wasm

import (
	"bytes"
	"encoding/binary"
	"math"
)

// asm assembles small modules, so that every hostile shape a test needs is in the
// test. Its zero value has nothing; guestAsm is one that follows the ABI.
type asm struct {
	types   [][]byte
	imports [][]byte
	funcs   []asmFunc
	tables  [][]byte
	memory  []byte
	globals [][]byte
	exports [][]byte
	start   int // index of the start function plus one
	data    []byte
	// locals are those of every function, as they are written, and segments how many
	// empty data segments there are.
	locals   []byte
	segments int
}

type asmFunc struct {
	typ  uint32
	body []byte
}

// Value types, and the opcodes the tests use.
const (
	tI32 = 0x7f
	tI64 = 0x7e

	opUnreachable = 0x00
	opLoop        = 0x03
	opIf          = 0x04
	opEnd         = 0x0b
	opBr          = 0x0c
	opReturn      = 0x0f
	opCall        = 0x10
	opDrop        = 0x1a
	opLocalGet    = 0x20
	opI32Const    = 0x41
	opI64Const    = 0x42
	opI32Eq       = 0x46
	opI64Or       = 0x84
	opI64Shl      = 0x86
	opI64ExtendU  = 0xad
	opMemory      = 0x40 // memory.grow
	blockVoid     = 0x40
)

func uleb(v uint64) []byte { return binary.AppendUvarint(nil, v) }

func sleb(v int64) []byte {
	var b []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func vec(items [][]byte) []byte {
	b := uleb(uint64(len(items)))
	for _, it := range items {
		b = append(b, it...)
	}
	return b
}

func name(s string) []byte { return append(uleb(uint64(len(s))), s...) }

func code(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch v := p.(type) {
		case int:
			b = append(b, byte(v))
		case []byte:
			b = append(b, v...)
		}
	}
	return b
}

func i32Const(v int32) []byte { return code(opI32Const, sleb(int64(v))) }
func i64Const(v int64) []byte { return code(opI64Const, sleb(v)) }
func get(local int) []byte    { return code(opLocalGet, local) }
func call(f uint32) []byte    { return code(opCall, uleb(uint64(f))) }

// forever is a loop without an end.
func forever() []byte { return code(opLoop, blockVoid, opBr, 0, opEnd) }

// whenOp runs body if the first parameter is op.
func whenOp(op uint32, body []byte) []byte {
	return code(get(0), i32Const(int32(op)), opI32Eq, opIf, blockVoid, body, opEnd)
}

// packed is the result of handle as a constant.
func packed(ptr, n uint32, isError bool) []byte {
	v := uint64(ptr)<<32 | uint64(n)
	if isError {
		v |= 1 << 31
	}
	return i64Const(int64(v))
}

// echo returns the input as the reply.
func echo() []byte {
	return code(get(1), opI64ExtendU, i64Const(32), opI64Shl, get(2), opI64ExtendU, opI64Or)
}

func (a *asm) typ(params, results []byte) uint32 {
	t := append([]byte{0x60}, name(string(params))...)
	a.types = append(a.types, append(t, name(string(results))...))
	return uint32(len(a.types) - 1)
}

// importFunc adds a function import; all come before the first fn.
func (a *asm) importFunc(module, field string, params, results []byte) uint32 {
	a.imports = append(a.imports, code(name(module), name(field), 0, uleb(uint64(a.typ(params, results)))))
	return uint32(len(a.imports) - 1)
}

func (a *asm) fn(params, results, body []byte) uint32 {
	a.funcs = append(a.funcs, asmFunc{a.typ(params, results), body})
	return uint32(len(a.imports) + len(a.funcs) - 1)
}

func (a *asm) export(field string, f uint32) {
	a.exports = append(a.exports, code(name(field), 0, uleb(uint64(f))))
}

// exportGlobal adds a constant of type i32.
func (a *asm) exportGlobal(field string, v int32) {
	a.exports = append(a.exports, code(name(field), 3, uleb(uint64(len(a.globals)))))
	a.globals = append(a.globals, code(tI32, 0, i32Const(v), opEnd))
}

func (a *asm) exportMemory(least uint32) {
	a.memory = code(0, uleb(uint64(least)))
	a.exports = append(a.exports, code(name("memory"), 2, 0))
}

func (a *asm) bytes() []byte {
	b := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, body []byte) {
		b = append(b, id)
		b = append(b, uleb(uint64(len(body)))...)
		b = append(b, body...)
	}
	section(1, vec(a.types))
	section(2, vec(a.imports))
	var types, bodies [][]byte
	for _, f := range a.funcs {
		types = append(types, uleb(uint64(f.typ)))
		locals := a.locals
		if locals == nil {
			locals = code(0)
		}
		body := code(locals, f.body, opEnd)
		bodies = append(bodies, append(uleb(uint64(len(body))), body...))
	}
	section(3, vec(types))
	section(4, vec(a.tables))
	if a.memory != nil {
		section(5, vec([][]byte{a.memory}))
	}
	if a.globals != nil {
		section(6, vec(a.globals))
	}
	section(7, vec(a.exports))
	if a.start > 0 {
		section(8, uleb(uint64(a.start-1)))
	}
	section(10, vec(bodies))
	if a.segments > 0 {
		section(11, append(uleb(uint64(a.segments)), bytes.Repeat([]byte{1, 0}, a.segments)...))
	}
	if a.data != nil {
		section(11, vec([][]byte{code(0, i32Const(dataAt), opEnd, name(string(a.data)))}))
	}
	return b
}

const (
	inputAt = 1024
	dataAt  = 16
	opEvil  = uint32(2000) // what a hostile guest does its worst at
	opEcho  = uint32(1024) // what it answers with the input
)

var i32x3 = []byte{tI32, tI32, tI32}

// guestAsm is a guest of one page that runs body in handle, and echoes if body
// comes to its end. Tests change what they are about.
type guestAsm struct {
	asm
	version int32
	alloc   []byte
	body    []byte
	pages   uint32
	without string
}

func newGuest(body []byte) *guestAsm {
	return &guestAsm{version: 1 << 16, alloc: i32Const(inputAt), body: body, pages: 1}
}

func (g *guestAsm) build() []byte {
	for _, e := range []struct {
		name                  string
		params, results, body []byte
	}{
		{"abi_version", nil, []byte{tI32}, i32Const(g.version)},
		{"alloc", []byte{tI32}, []byte{tI32}, g.alloc},
		{"handle", i32x3, []byte{tI64}, code(g.body, echo())},
	} {
		if e.name != g.without {
			g.export(e.name, g.fn(e.params, e.results, e.body))
		}
	}
	if g.without != "memory" {
		g.exportMemory(g.pages)
	}
	return g.bytes()
}

// big is a number of pages beyond every limit.
const big = math.MaxUint16 + 1
