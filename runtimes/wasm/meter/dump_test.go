package meter

import (
	"fmt"
	"strings"
	"testing"
)

// opcodeNames are the instructions that golden files show.
var opcodeNames = map[byte]string{
	opUnreachable: "unreachable", opNop: "nop", opBlock: "block", opLoop: "loop", opIf: "if", opElse: "else",
	opEnd: "end", opBr: "br", opBrIf: "br_if", opReturn: "return", opCall: "call", opReturnCall: "return_call",
	opDrop: "drop", opSelect: "select", opLocalGet: "local.get", opLocalSet: "local.set", opLocalTee: "local.tee",
	opGlobalGet: "global.get", opGlobalSet: "global.set", opI32Load: "i32.load", opI64Load: "i64.load",
	opI32Load8U: "i32.load8_u", opI64Store: "i64.store", opI64Store32: "i64.store32", opMemorySize: "memory.size",
	opMemoryGrow: "memory.grow", opI32Const: "i32.const", opI64Const: "i64.const", opI32Eqz: "i32.eqz",
	opI32Ne: "i32.ne", opI32LtU: "i32.lt_u", opI32GtU: "i32.gt_u", opI32LeU: "i32.le_u", opI64LtS: "i64.lt_s", opI64GtU: "i64.gt_u",
	opI32Add: "i32.add", opI32Sub: "i32.sub", opI32Mul: "i32.mul", opI32RemU: "i32.rem_u", opI32ShrU: "i32.shr_u",
	opI64Add: "i64.add", opI64Sub: "i64.sub", opI64Mul: "i64.mul", opI64Shl: "i64.shl", opI64ShrU: "i64.shr_u",
	opI64ExtendU: "i64.extend_i32_u", opRefFunc: "ref.func", opRefNull: "ref.null",
}

var miscNames = [...]string{
	miscMemoryInit: "memory.init", miscDataDrop: "data.drop", miscMemoryCopy: "memory.copy",
	miscMemoryFill: "memory.fill", miscTableInit: "table.init", miscElemDrop: "elem.drop",
	miscTableCopy: "table.copy", miscTableGrow: "table.grow", miscTableSize: "table.size", miscTableFill: "table.fill",
}

// dump writes a module as text: counts, names and code.
func dump(t *testing.T, data []byte) string {
	m, err := parse(data, Limits{}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, im := range m.imports {
		fmt.Fprintf(&b, "import %s.%s kind %d\n", im.module, im.name, im.kind)
	}
	for i, l := range m.memories {
		fmt.Fprintf(&b, "memory %d: %v\n", i, l)
	}
	for i, tb := range m.tables {
		fmt.Fprintf(&b, "table %d: %v\n", i, tb.limits)
	}
	for i, g := range m.globals {
		fmt.Fprintf(&b, "global %d: type %#x mutable %v\n", i, g.typ, g.mutable)
	}
	if m.sections[secExport] != nil {
		r := m.reader(secExport)
		for range r.u32() {
			fmt.Fprintf(&b, "export %s: ", r.name())
			kind := r.byte()
			fmt.Fprintf(&b, "%s %d\n", Kind(kind), r.u32())
		}
	}
	if m.sections[secStart] != nil {
		fmt.Fprintf(&b, "start %d\n", m.reader(secStart).u32())
	}
	if m.sections[secElement] != nil {
		fmt.Fprintf(&b, "elements %x\n", data[m.sections[secElement].start:m.sections[secElement].end])
	}
	for _, s := range m.segments {
		fmt.Fprintf(&b, "data active %v: %x\n", s.active, data[s.bytes.start:s.bytes.end])
	}
	for _, c := range m.custom {
		fmt.Fprintf(&b, "custom %s: %q\n", c.name, data[c.content.start:c.content.end])
	}
	if m.sections[secCode] == nil {
		return b.String()
	}
	r := m.reader(secCode)
	for i := range r.u32() {
		size := r.u32()
		start := r.skip(size)
		fmt.Fprintf(&b, "function %d\n", m.importedFuncs+i)
		dumpBody(t, &b, &reader{data: data, pos: start, end: r.pos})
	}
	return b.String()
}

func dumpBody(t *testing.T, b *strings.Builder, r *reader) {
	for range r.u32() {
		fmt.Fprintf(b, "    local %d of %#x\n", r.u32(), r.byte())
	}
	indent := "    "
	last, times := "", 0
	write := func(line string) {
		if line == last {
			times++
			return
		}
		if times > 1 {
			last = fmt.Sprintf("%s (%d times)", last, times)
		}
		if times > 0 {
			b.WriteString(last + "\n")
		}
		last, times = line, 1
	}
	defer write("")
	for r.more() {
		op := r.byte()
		name := opcodeNames[op]
		if op == opElse || op == opEnd && len(indent) > 4 {
			indent = indent[2:]
		}
		line := indent + name
		switch {
		case op == opPrefixMisc:
			n := r.u32()
			line = indent + miscNames[n]
			for range map[uint32]int{miscMemoryFill: 1, miscTableGrow: 1, miscTableSize: 1, miscTableFill: 1, miscDataDrop: 1, miscElemDrop: 1}[n] {
				line += fmt.Sprintf(" %d", r.u32())
			}
			for range map[uint32]int{miscMemoryInit: 2, miscMemoryCopy: 2, miscTableInit: 2, miscTableCopy: 2}[n] {
				line += fmt.Sprintf(" %d", r.u32())
			}
		case name == "":
			t.Fatalf("opcode %#x has no name here", op)
		case op == opBlock, op == opLoop, op == opIf, op == opElse:
			if op != opElse {
				r.byte()
			}
			indent += "  "
		case op == opI32Const, op == opI64Const:
			line += fmt.Sprintf(" %d", r.signed(64))
		case op >= opI32Load && op <= opI64Store32:
			r.u32()
			line += fmt.Sprintf(" offset=%d", r.u32())
		case op == opMemorySize, op == opMemoryGrow, op == opRefNull:
			r.byte()
		case op == opBr, op == opBrIf, op == opCall, op == opReturnCall, op == opRefFunc, op >= opLocalGet && op <= opGlobalSet:
			line += fmt.Sprintf(" %d", r.u32())
		}
		write(line)
	}
}
