package meter

// edit is a change to a body: the bytes from at to end give way to what it writes.
type edit struct {
	at, end int
	kind    editKind
	// arg is a point for editCharge, else a function of the result.
	arg uint32
}

type editKind uint8

const (
	editCharge  editKind = iota // charge at a point
	editCall                    // call another function
	editTail                    // return_call another function
	editRef                     // ref.func of another function
	editPrefix                  // call a function ahead of the instruction
)

// body reads the code of one function and writes it to out. at is the offset of
// its size.
func (w *rewriter) body(r *reader, out *buffer) {
	size := r.u32()
	start := r.skip(size)
	if r.err != nil {
		return
	}
	if int(size) > w.module.limits.FunctionBytes {
		r.fail(start, ErrLimit, "%d bytes are more than %d", size, w.module.limits.FunctionBytes)
		return
	}
	end := r.pos
	b := &reader{data: r.data, pos: start, end: end, section: r.section, function: r.function}
	w.locals(b)
	first := b.pos
	w.edits = w.edits[:0]
	w.plan.begin(first)
	w.walk(b)
	if b.err != nil {
		r.err = b.err
		r.pos = r.end
		return
	}
	w.result.Report.Functions++
	w.result.Report.Loops += w.plan.loops
	w.scratch = w.scratch[:0]
	w.scratch.raw(r.data[start:first])
	w.emit(&w.scratch, r.data, first, end)
	out.sized(w.scratch)
}

// locals reads the declarations of local variables.
func (w *rewriter) locals(r *reader) {
	at := r.pos
	total := uint64(0)
	for range r.count(2, w.module.limits.Locals, "groups of locals") {
		total += uint64(r.u32())
		r.valueType()
		if r.err != nil {
			return
		}
		if total > uint64(w.module.limits.Locals) {
			r.fail(at, ErrLimit, "%d locals are more than %d", total, w.module.limits.Locals)
			return
		}
	}
}

// emit writes the instructions between the offsets first and end, with the edits
// and charges of the current plan. Both are in the order of their offsets.
func (w *rewriter) emit(out *buffer, data []byte, first, end int) {
	from := first
	next := 0
	points := w.plan.points
	if w.options.Fuel == nil {
		points = nil
	}
	flush := func(at int) {
		for ; next < len(points) && points[next].at <= at; next++ {
			p := &points[next]
			cost := p.weight + p.lumped
			if p.check {
				cost = max(cost, 1)
			}
			if cost == 0 {
				continue
			}
			out.raw(data[from:p.at])
			from = p.at
			w.charge(out, cost, p.check)
			w.result.Report.Charges++
		}
	}
	for _, e := range w.edits {
		flush(e.at)
		out.raw(data[from:e.at])
		switch e.kind {
		case editCall, editPrefix:
			out.call(e.arg)
		case editTail:
			out.op(opReturnCall)
			out.u32(e.arg)
		case editRef:
			out.op(opRefFunc)
			out.u32(e.arg)
		}
		from = e.end
	}
	flush(end)
	out.raw(data[from:end])
}

// walk reads the instructions of a body up to its end.
func (w *rewriter) walk(r *reader) {
	m, p := w.module, &w.plan
	for {
		at := r.pos
		op := r.byte()
		if r.err != nil {
			return
		}
		switch op {
		case opNop:
		case opUnreachable:
			p.spend(1)
			p.cur = dead
		case opBlock, opLoop:
			w.blockType(r)
			w.nest(r, at, op)
		case opIf:
			w.blockType(r)
			p.spend(1)
			w.nest(r, at, op)
		case opElse:
			if !p.alternative(r.pos) {
				r.malformed(at, "else without if")
			}
		case opEnd:
			if p.close(r.pos) {
				r.done()
				return
			}
		case opBr:
			w.label(r)
			p.spend(1)
			p.cur = dead
		case opBrIf:
			w.label(r)
			p.spend(1)
			p.conditional(r.pos)
		case opBrTable:
			for range r.count(1, m.limits.BranchTargets, "branch targets") {
				w.label(r)
				if r.err != nil {
					return
				}
			}
			w.label(r)
			p.spend(1)
			p.cur = dead
		case opReturn:
			p.spend(1)
			p.leave()
		case opCall, opReturnCall:
			f := r.index(m.funcs, "function")
			if r.err != nil {
				return
			}
			p.spend(callCost)
			p.calls = true
			kind := editCall
			if op == opReturnCall {
				kind = editTail
				p.leave()
			}
			if to := w.remap(f); to != f {
				w.edits = append(w.edits, edit{at, r.pos, kind, to})
			}
		case opCallIndirect, opReturnCallIndirect:
			r.index(uint32(len(m.types)), "type")
			r.index(uint32(len(m.tables)), "table")
			p.spend(callCost)
			p.calls = true
			if op == opReturnCallIndirect {
				p.leave()
			}
		case opRefFunc:
			f := r.index(m.funcs, "function")
			if r.err != nil {
				return
			}
			p.spend(1)
			if to := w.remap(f); to != f {
				w.edits = append(w.edits, edit{at, r.pos, editRef, to})
			}
		case opMemoryGrow:
			r.zero("memory")
			p.spend(1)
			w.bulk(r, at, helper{kind: helpMemoryGrow})
			w.result.Report.GrowOps++
		case opPrefixMisc:
			p.spend(1)
			w.misc(r, at)
		default:
			p.spend(1)
			w.plain(r, at, op)
		}
		if r.err != nil {
			return
		}
	}
}

// leave marks that control goes back to the caller.
func (p *plan) leave() {
	if p.cur != dead {
		p.reach(0)
		p.cur = dead
	}
}

// nest opens a block, loop or if.
func (w *rewriter) nest(r *reader, at int, op byte) {
	if len(w.plan.frames) > w.module.limits.Nesting {
		r.fail(at, ErrLimit, "blocks nested deeper than %d", w.module.limits.Nesting)
		return
	}
	w.plan.open(op, r.pos)
}

func (w *rewriter) label(r *reader) {
	at := r.pos
	if l := r.u32(); r.err == nil && !w.plan.branch(l) {
		r.malformed(at, "label %d does not exist", l)
	}
}

// blockType reads the type of a block.
func (w *rewriter) blockType(r *reader) {
	at := r.pos
	if r.more() {
		if t := r.data[r.pos]; t == blockVoid || isValueType(t) {
			r.pos++
			return
		}
	}
	i := r.signed(33)
	switch {
	case r.err != nil:
	case i < 0:
		r.fail(at, ErrUnsupported, "block type %#x%s", byte(i&0x7f), typeProposal(byte(i&0x7f)))
	case i >= int64(len(w.module.types)):
		r.malformed(at, "type %d does not exist, the module has %d", i, len(w.module.types))
	}
}

// zero reads a byte that must be zero: the index of the only memory.
func (r *reader) zero(what string) {
	at := r.pos
	if b := r.byte(); r.err == nil && b != 0 {
		r.fail(at, ErrUnsupported, "%s %d (multi-memory)", what, b)
	}
}

// memarg reads what a load or store has: an alignment and an offset.
func (r *reader) memarg() {
	at := r.pos
	if align := r.u32(); r.err == nil && align >= 32 {
		r.fail(at, ErrUnsupported, "alignment %#x (multi-memory)", align)
	}
	r.u32()
}

// plain reads the immediates of an instruction that is kept as it is.
func (w *rewriter) plain(r *reader, at int, op byte) {
	m := w.module
	switch {
	case op >= opLocalGet && op <= opLocalTee:
		r.u32()
	case op == opGlobalGet, op == opGlobalSet:
		r.index(uint32(len(m.globals)), "global")
	case op >= opI32Load && op <= opI64Store32:
		r.memarg()
	case op == opI32Const:
		r.signed(32)
	case op == opI64Const:
		r.signed(64)
	case op >= opI32Eqz && op <= opI64Extend32S, op == opDrop, op == opSelect, op == opRefIsNull:
	case op == opF32Const:
		r.skip(4)
	case op == opF64Const:
		r.skip(8)
	case op == opMemorySize:
		r.zero("memory")
	case op == opTableGet, op == opTableSet:
		r.index(uint32(len(m.tables)), "table")
	case op == opSelectTyped:
		if n := r.byte(); r.err == nil && n != 1 {
			r.malformed(at, "select of %d types", n)
		}
		r.valueType()
	case op == opRefNull:
		r.refType()
	case op == opPrefixVector:
		w.vector(r, at)
	default:
		r.fail(at, ErrUnsupported, "%s", refusedName(op))
	}
}

// vector reads an instruction of the SIMD proposal. Its number must be written as
// short as it can be: runtimes differ in what they make of another.
func (w *rewriter) vector(r *reader, at int) {
	n := r.u32()
	op := byte(n)
	switch size := r.pos - at - 1; {
	case r.err != nil:
	case n > 0xff || isVectorHole(op):
		r.fail(at, ErrUnsupported, "%s", refusedVector(n))
	case n < 0x80 && size != 1 || n >= 0x80 && size != 2:
		r.malformed(at, "vector opcode %#x is written with %d bytes", n, size)
	case op < vectorConst, op == vectorLoadZero32, op == vectorLoadZero64:
		r.memarg()
	case op == vectorConst, op == vectorShuffle:
		r.skip(16)
	case op >= vectorLaneFirst && op <= vectorLaneLast:
		r.byte()
	case op >= vectorMemoryLane && op <= vectorMemoryLane2:
		r.memarg()
		r.byte()
	}
}

// misc reads an instruction with prefix 0xfc.
func (w *rewriter) misc(r *reader, at int) {
	m := w.module
	n := r.u32()
	if r.err == nil && r.pos != at+2 {
		r.malformed(at, "opcode 0xfc %#x is written with %d bytes", n, r.pos-at-1)
		return
	}
	switch {
	case r.err != nil, n <= miscTruncSatLast:
	case n == miscMemoryInit:
		s := r.index(uint32(len(m.segments)), "data segment")
		r.zero("memory")
		w.usesData = true
		w.init(r, at, helper{helpMemoryInit, s, 0}, m.segmentBytes(s))
	case n == miscDataDrop:
		r.index(uint32(len(m.segments)), "data segment")
		w.usesData = true
	case n == miscMemoryCopy:
		r.zero("memory")
		r.zero("memory")
		w.bulk(r, at, helper{kind: helpMemoryCopy})
	case n == miscMemoryFill:
		r.zero("memory")
		w.bulk(r, at, helper{kind: helpMemoryFill})
	case n == miscTableInit:
		s := r.index(uint32(len(m.elements)), "element segment")
		t := r.index(uint32(len(m.tables)), "table")
		if r.err == nil {
			w.init(r, at, helper{helpTableInit, s, t}, uint64(m.elements[s])*refBytes)
		}
	case n == miscElemDrop:
		r.index(uint32(len(m.elements)), "element segment")
	case n == miscTableCopy:
		to := r.index(uint32(len(m.tables)), "table")
		from := r.index(uint32(len(m.tables)), "table")
		w.bulk(r, at, helper{helpTableCopy, to, from})
	case n == miscTableGrow:
		w.bulk(r, at, helper{helpTableGrow, r.index(uint32(len(m.tables)), "table"), 0})
		w.result.Report.GrowOps++
	case n == miscTableSize:
		r.index(uint32(len(m.tables)), "table")
	case n == miscTableFill:
		w.bulk(r, at, helper{helpTableFill, r.index(uint32(len(m.tables)), "table"), 0})
	default:
		r.fail(at, ErrUnsupported, "%s", refusedMisc(n))
	}
}

// bulk has the instruction from at to here done by a helper.
func (w *rewriter) bulk(r *reader, at int, h helper) {
	w.plan.calls = true
	if r.err != nil || w.options.Fuel == nil {
		return
	}
	w.result.Report.BulkOps++
	w.edits = append(w.edits, edit{at, r.pos, editCall, w.helpers.function(h)})
}

// init does the same for memory.init and table.init. A segment of one slice can
// only be copied in one, and so it is enough to charge ahead of the instruction.
func (w *rewriter) init(r *reader, at int, h helper, size uint64) {
	if size > sliceBytes {
		w.bulk(r, at, h)
		return
	}
	w.plan.calls = true
	if r.err != nil || w.options.Fuel == nil {
		return
	}
	w.result.Report.BulkOps++
	kind := helper{kind: helpChargeBytes}
	if h.kind == helpTableInit {
		kind.kind = helpChargeRefs
	}
	w.edits = append(w.edits, edit{at, at, editPrefix, w.helpers.function(kind)})
}
