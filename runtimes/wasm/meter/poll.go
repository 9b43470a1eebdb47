package meter

// Offsets in a subscription. The first has an identifier of the clock, which
// nothing uses, ahead of what the second begins with.
const (
	subSize, sub1Size = 56, 48
	subTag            = 8
	subUnion          = 16
	// clockGap is the length of the identifier.
	clockGap = 8
	// sub1Spare4 and sub1Spare44 are four bytes each that preview 1 leaves unused in
	// a subscription to a clock.
	sub1Spare20 = 20
	sub1Spare44 = 44
)

// pollBody moves the subscriptions together into the shorter layout in place,
// calls the host, and moves them apart again: the caller's array is constant to
// the caller, which may use it once more. Identifiers are kept in bytes that the
// shorter layout does not use.
func (w *rewriter) pollBody(imported uint32) buffer {
	const (
		in, out, count, result uint32 = 0, 1, 2, 3
		left, from, to, errno  uint32 = 4, 5, 6, 7
		word                   uint32 = 8 // and the next six
	)
	var b buffer
	b.u32(2)
	b.u32(4)
	b.op(i32Type)
	b.u32(7)
	b.op(i64Type)

	// in + count*56 > memory?
	b.get(in)
	b.op(opI64ExtendU)
	b.get(count)
	b.op(opI64ExtendU)
	b.i64(subSize)
	b.op(opI64Mul, opI64Add, opMemorySize, 0, opI64ExtendU)
	b.i64(16)
	b.op(opI64Shl, opI64GtU, opIf, blockVoid)
	b.i32(errnoFault)
	b.op(opReturn, opEnd)

	step := func(v uint32, by int32) {
		b.get(v)
		b.i32(by)
		b.op(opI32Add)
		b.set(v)
	}
	// each writes a loop over the subscriptions, whose body is charged.
	each := func(body func()) {
		b.get(count)
		b.tee(left)
		b.op(opIf, blockVoid, opLoop, blockVoid)
		if w.options.Fuel != nil {
			w.charge(&b, subSize, true)
		}
		body()
		step(left, -1)
		b.get(left)
		b.op(opBrIf, 0, opEnd, opEnd)
	}
	load := func(i, offset uint32) {
		b.get(from)
		b.memory(opI64Load, offset)
		b.set(word + i)
	}
	store := func(i, offset uint32) {
		b.get(to)
		b.get(word + i)
		b.memory(opI64Store, offset)
	}
	isClock := func(base uint32) {
		b.get(base)
		b.memory(opI32Load8U, subTag)
		b.op(opI32Eqz, opIf, blockVoid)
	}

	b.get(in)
	b.tee(from)
	b.set(to)
	each(func() {
		isClock(from)
		// userdata and tag, identifier, clock, timeout, precision, flags
		for i := range uint32(7) {
			load(i, i*8)
		}
		store(0, 0)
		store(1, 8)
		store(3, subUnion)
		store(4, subUnion+8)
		store(5, subUnion+16)
		store(6, subUnion+24)
		b.get(to)
		b.get(word + 2)
		b.memory(opI64Store32, sub1Spare20)
		b.get(to)
		b.get(word + 2)
		b.i64(32)
		b.op(opI64ShrU)
		b.memory(opI64Store32, sub1Spare44)
		b.op(opElse)
		for i := range uint32(3) {
			load(i, i*8)
		}
		for i := range uint32(3) {
			store(i, i*8)
		}
		b.op(opEnd)
		step(from, subSize)
		step(to, sub1Size)
	})

	b.get(in)
	b.get(out)
	b.get(count)
	b.get(result)
	b.call(imported)
	b.set(errno)

	// From the last one back, so that none is overwritten before it is read. from
	// and to are behind the last.
	last := func(v uint32, size int32) {
		b.get(in)
		b.get(count)
		b.i32(size)
		b.op(opI32Mul, opI32Add)
		b.set(v)
	}
	last(from, sub1Size)
	last(to, subSize)
	each(func() {
		step(from, -sub1Size)
		step(to, -subSize)
		isClock(from)
		for i := range uint32(6) {
			load(i, i*8)
		}
		store(0, 0)
		store(1, 8)
		// The identifier, from where its halves were kept.
		b.get(to)
		b.get(word + 2)
		b.i64(32)
		b.op(opI64ShrU)
		b.get(word + 5)
		b.i64(32)
		b.op(opI64ShrU)
		b.i64(32)
		b.op(opI64Shl, opI64Add)
		b.memory(opI64Store, subUnion)
		store(2, subUnion+clockGap)
		store(3, subUnion+clockGap+8)
		store(4, subUnion+clockGap+16)
		store(5, subUnion+clockGap+24)
		b.op(opElse)
		for i := range uint32(3) {
			load(i, i*8)
		}
		for i := range uint32(3) {
			store(i, i*8)
		}
		b.op(opEnd)
	})
	b.get(errno)
	b.op(opEnd)
	return b
}
