package meter

// A bulk instruction longer than a slice is replaced by a loop over slices. In
// the specification such an instruction fails before it changes anything if any
// part of it is out of bounds; so the loop is entered only if all of it is inside,
// and else the instruction itself is left to fail. The host is called ahead of
// every slice, however much fuel there is: when memory is touched for the first time
// a slice can take a thousand times as long as it is worth. What is copied within one
// memory or table may overlap: upward copies start at the front and downward ones
// at the back, so that no slice reads what an earlier one has written.

// slicedBody is the body of the function that does what a bulk instruction does.
// Its parameters are those of the instruction: where to, from where or with what
// value, and how much.
func (w *rewriter) slicedBody(k helper) buffer {
	const (
		to, from, length uint32 = 0, 1, 2
		part             uint32 = 3
	)
	var b buffer
	b.u32(1)
	b.u32(1)
	b.op(i32Type)

	shift := int32(bytesShift)
	slice := int32(sliceBytes)
	if k.onTable() {
		shift = refsShift
		slice = sliceBytes / refBytes
	}
	if s := w.source(k); s.segment && s.length <= uint64(slice) {
		// There is no more to copy than a slice.
		w.chargeLocal(&b, bulkCost, length, shift)
		w.look(&b)
		k.instruction(&b, to, from, length)
		b.op(opEnd)
		return b
	}
	// The usual case: no longer than a slice.
	b.get(length)
	b.i32(slice)
	b.op(opI32LeU, opIf, blockVoid)
	w.chargeLocal(&b, bulkCost, length, shift)
	w.look(&b)
	k.instruction(&b, to, from, length)
	b.op(opReturn, opEnd)

	// Out of bounds: let it fail.
	w.pastEnd(&b, k.destination(), to, length)
	b.op(opIf, blockVoid)
	k.instruction(&b, to, from, length)
	b.op(opReturn, opEnd)
	if k.advances() {
		w.pastEnd(&b, w.source(k), from, length)
		b.op(opIf, blockVoid)
		k.instruction(&b, to, from, length)
		b.op(opReturn, opEnd)
	}
	if k.copies() {
		b.get(to)
		b.get(from)
		b.op(opI32GtU, opIf, blockVoid)
		w.downward(&b, k, slice, shift)
		b.op(opReturn, opEnd)
	}

	b.op(opLoop, blockVoid)
	w.nextPart(&b, length, part, slice)
	w.chargeLocal(&b, bulkCost, part, shift)
	w.callHost(&b)
	k.instruction(&b, to, from, part)
	b.get(to)
	b.get(part)
	b.op(opI32Add)
	b.set(to)
	if k.advances() {
		b.get(from)
		b.get(part)
		b.op(opI32Add)
		b.set(from)
	}
	b.get(length)
	b.get(part)
	b.op(opI32Sub)
	b.tee(length)
	b.op(opBrIf, 0, opEnd, opEnd)
	return b
}

// downward copies slices from the back: of what is left, the last.
func (w *rewriter) downward(b *buffer, k helper, slice, shift int32) {
	const (
		to, from, length uint32 = 0, 1, 2
		part             uint32 = 3
	)
	b.op(opLoop, blockVoid)
	w.nextPart(b, length, part, slice)
	w.chargeLocal(b, bulkCost, part, shift)
	w.callHost(b)
	b.get(length)
	b.get(part)
	b.op(opI32Sub)
	b.set(length)
	for _, start := range [...]uint32{to, from} {
		b.get(start)
		b.get(length)
		b.op(opI32Add)
	}
	b.get(part)
	k.opcode(b)
	b.get(length)
	b.op(opBrIf, 0, opEnd)
}

// nextPart sets part to the smaller of what is left and a slice.
func (w *rewriter) nextPart(b *buffer, length, part uint32, slice int32) {
	b.get(length)
	b.i32(slice)
	b.get(length)
	b.i32(slice)
	b.op(opI32LtU, opSelect)
	b.set(part)
}

// space is what a bulk instruction moves things in: the memory, a table, or a
// segment of a known length.
type space struct {
	memory  bool
	table   uint32
	segment bool
	length  uint64
}

// pastEnd leaves 1 on the stack if start and length lead past the end of a space.
func (w *rewriter) pastEnd(b *buffer, s space, start, length uint32) {
	b.get(start)
	b.op(opI64ExtendU)
	b.get(length)
	b.op(opI64ExtendU, opI64Add)
	switch {
	case s.memory:
		b.op(opMemorySize, 0, opI64ExtendU)
		b.i64(16)
		b.op(opI64Shl)
	case s.segment:
		b.i64(int64(s.length))
	default:
		b.op(opPrefixMisc, miscTableSize)
		b.u32(s.table)
		b.op(opI64ExtendU)
	}
	b.op(opI64GtU)
}

func (k helper) onTable() bool {
	switch k.kind {
	case helpTableCopy, helpTableFill, helpTableInit:
		return true
	}
	return false
}

// copies says that source and destination are of the same sort.
func (k helper) copies() bool { return k.kind == helpMemoryCopy || k.kind == helpTableCopy }

// advances says that the second parameter is a place, not a value.
func (k helper) advances() bool { return k.kind != helpMemoryFill && k.kind != helpTableFill }

func (k helper) destination() space {
	if !k.onTable() {
		return space{memory: true}
	}
	if k.kind == helpTableInit {
		return space{table: k.b}
	}
	return space{table: k.a}
}

func (w *rewriter) source(k helper) space {
	switch k.kind {
	case helpMemoryCopy:
		return space{memory: true}
	case helpTableCopy:
		return space{table: k.b}
	case helpMemoryInit:
		return space{segment: true, length: w.module.segmentBytes(k.a)}
	case helpTableInit:
		return space{segment: true, length: uint64(w.module.elements[k.a])}
	}
	return space{}
}

// instruction writes the instruction with its operands.
func (k helper) instruction(b *buffer, to, from, length uint32) {
	b.get(to)
	b.get(from)
	b.get(length)
	k.opcode(b)
}

func (k helper) opcode(b *buffer) {
	switch k.kind {
	case helpMemoryFill:
		b.op(opPrefixMisc, miscMemoryFill, 0)
	case helpMemoryCopy:
		b.op(opPrefixMisc, miscMemoryCopy, 0, 0)
	case helpMemoryInit:
		b.op(opPrefixMisc, miscMemoryInit)
		b.u32(k.a)
		b.op(0)
	case helpTableFill:
		b.op(opPrefixMisc, miscTableFill)
		b.u32(k.a)
	case helpTableCopy:
		b.op(opPrefixMisc, miscTableCopy)
		b.u32(k.a)
		b.u32(k.b)
	case helpTableInit:
		b.op(opPrefixMisc, miscTableInit)
		b.u32(k.a)
		b.u32(k.b)
	}
}
