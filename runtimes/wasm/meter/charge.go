package meter

// What the counter pays for. A unit is about what one instruction takes.
const (
	// callCost is what a call costs: the call itself and the frame it makes.
	callCost = 1
	// bulkCost is what a bulk instruction costs before the bytes it moves, and
	// growCost what memory.grow and table.grow cost before what they add.
	bulkCost = 16
	growCost = 256
	// bytesShift is how bytes moved become units: eight to the unit, a word; and so
	// does each reference.
	bytesShift = 3
	refsShift  = 0
	// pageCost is what a page of new memory costs: as much as filling it.
	pageCost = 64 << 10 >> bytesShift

	refBytes = 8
)

// sliceBytes is how much of a bulk instruction is done at once.
const sliceBytes = 1 << 20

// charge takes a constant off the counter and, if look, calls the host when the
// counter is below zero.
func (w *rewriter) charge(b *buffer, cost int64, look bool) {
	if cost > 0 {
		w.getCounter(b)
		b.i64(cost)
		b.op(opI64Sub)
		w.setCounter(b)
	}
	if look {
		w.look(b)
	}
}

func (w *rewriter) getCounter(b *buffer) { b.op(opGlobalGet); b.u32(w.counter) }
func (w *rewriter) setCounter(b *buffer) { b.op(opGlobalSet); b.u32(w.counter) }

// look calls the host if the counter is below zero.
func (w *rewriter) look(b *buffer) {
	w.getCounter(b)
	b.i64(0)
	b.op(opI64LtS, opIf, blockVoid)
	w.callHost(b)
	b.op(opEnd)
}

// chargeLocal takes a constant and an i32 variable, shifted right, off the counter.
func (w *rewriter) chargeLocal(b *buffer, cost int64, local uint32, shift int32) {
	w.getCounter(b)
	b.get(local)
	if shift > 0 {
		b.i32(shift)
		b.op(opI32ShrU)
	}
	b.op(opI64ExtendU, opI64Sub)
	b.i64(cost)
	b.op(opI64Sub)
	w.setCounter(b)
}

// callHost calls the host, whether or not the counter is below zero.
func (w *rewriter) callHost(b *buffer) { b.call(w.helpers.function(helper{kind: helpSlice})) }

// sliceBody calls the callback with its constant arguments and drops its results.
func (w *rewriter) sliceBody() buffer {
	var b buffer
	b.u32(0)
	for i, t := range w.callback.params {
		var arg int64
		if i < len(w.callback.args) {
			arg = w.callback.args[i]
		}
		switch t {
		case i32Type:
			b.i32(int32(arg))
		case i64Type:
			b.i64(arg)
		}
	}
	b.call(w.callback.function)
	for range w.callback.results {
		b.op(opDrop)
	}
	b.op(opEnd)
	return b
}

// growBody grows and then charges for what was added, if anything was.
func (w *rewriter) growBody(k helper) buffer {
	var b buffer
	amount, result := uint32(0), uint32(1)
	if k.kind == helpTableGrow {
		amount, result = 1, 2
	}
	b.u32(1)
	b.u32(1)
	b.op(i32Type)
	w.charge(&b, growCost, false)
	if k.kind == helpMemoryGrow {
		b.get(0)
		b.op(opMemoryGrow, 0)
	} else {
		b.get(0)
		b.get(1)
		b.op(opPrefixMisc, miscTableGrow)
		b.u32(k.a)
	}
	b.tee(result)
	b.i32(-1)
	b.op(opI32Ne, opIf, blockVoid)
	w.getCounter(&b)
	b.get(amount)
	b.op(opI64ExtendU)
	if k.kind == helpMemoryGrow {
		b.i64(pageCost)
		b.op(opI64Mul)
	}
	b.op(opI64Sub)
	w.setCounter(&b)
	b.op(opEnd)
	w.look(&b)
	b.get(result)
	b.op(opEnd)
	return b
}
