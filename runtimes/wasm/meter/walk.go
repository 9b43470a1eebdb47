package meter

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
			w.nest(r, at, op, w.blockType(r))
		case opIf:
			t := w.blockType(r)
			p.spend(1)
			w.nest(r, at, op, t)
		case opElse:
			w.work.ways++
			if !p.alternative(r.pos) {
				r.malformed(at, "else without if")
			}
		case opEnd:
			if len(p.frames) == 1 {
				p.exits(at)
			}
			if p.end(r.pos) {
				r.done()
				return
			}
		case opBr:
			w.label(r, at)
			p.spend(1)
			p.cur = dead
		case opBrIf:
			w.label(r, at)
			p.spend(1)
			p.conditional(r.pos)
		case opBrTable:
			n := r.count(1, m.limits.BranchTargets-p.targets, "more branch targets")
			p.targets += n
			for range n {
				if w.label(r, at); r.err != nil {
					return
				}
			}
			w.label(r, at)
			p.spend(1)
			p.cur = dead
		case opReturn:
			p.spend(1)
			p.exits(at)
			p.leave()
			w.work.operands += uint64(p.frames[0].width)
		case opCall, opReturnCall:
			f := r.index(m.funcs, "function")
			if r.err != nil {
				return
			}
			p.spend(callCost)
			w.work.operands += uint64(m.typeOf(f).width())
			w.calls(r.pos, f)
			kind := editCall
			if op == opReturnCall {
				kind = editTail
				p.leave()
			}
			if to := w.remap(f); to != f {
				w.edits = append(w.edits, newEdit(at, r.pos, kind, to))
			}
		case opCallIndirect, opReturnCallIndirect:
			t := r.index(uint32(len(m.types)), "type")
			r.index(uint32(len(m.tables)), "table")
			if r.err != nil {
				return
			}
			w.work.operands += uint64(m.types[t].width())
			p.spend(callCost)
			p.callUnknown()
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
				w.edits = append(w.edits, newEdit(at, r.pos, editRef, to))
			}
		case opMemoryGrow:
			r.zero("memory")
			p.spend(1)
			w.bulk(r, at, helper{kind: helpMemoryGrow})
		case opPrefixMisc:
			p.spend(1)
			w.misc(r, at)
		default:
			p.spend(1)
			w.plain(r, at, op)
		}
		if r.err == nil {
			w.work.check(r, at, m.limits)
		}
		if r.err != nil {
			return
		}
	}
}

// calls notes a call by index, up to the offset next. What the host does is unknown: it may call back.
func (w *rewriter) calls(next int, f uint32) {
	m := w.module
	if f < m.importedFuncs {
		w.plan.callUnknown()
		return
	}
	var hidden int32
	if w.quiet != nil {
		hidden = w.quiet[f-m.importedFuncs]
	}
	w.plan.call(next, f-m.importedFuncs, hidden)
}

// nest opens a block, loop or if of a type.
func (w *rewriter) nest(r *reader, at int, op byte, t blockWidth) {
	p, lim := &w.plan, &w.module.limits
	width := t.results
	if op == opLoop {
		p.loopDepth++
		width = t.params
	}
	if op != opBlock {
		w.work.ways++
	}
	w.work.operands += uint64(t.params + t.results)
	switch {
	case len(p.frames) > lim.Nesting:
		r.fail(at, ErrLimit, "blocks nested deeper than %d", lim.Nesting)
	case p.loopDepth > lim.LoopNesting:
		r.fail(at, ErrLimit, "loops nested deeper than %d", lim.LoopNesting)
	default:
		p.open(op, r.pos, width)
	}
}

// label reads a label of the instruction at an offset.
func (w *rewriter) label(r *reader, at int) {
	if l := r.index(uint32(len(w.plan.frames)), "label"); r.err == nil {
		w.work.ways++
		w.work.operands += uint64(w.plan.frames[len(w.plan.frames)-1-int(l)].width)
		w.plan.branch(at, l)
	}
}

// blockWidth is how many values a block takes and returns.
type blockWidth struct{ params, results int }

// blockType reads the type of a block.
func (w *rewriter) blockType(r *reader) blockWidth {
	at := r.pos
	if r.more() {
		switch t := r.data[r.pos]; {
		case t == blockVoid:
			r.pos++
			return blockWidth{}
		case isValueType(t):
			r.pos++
			return blockWidth{results: 1}
		}
	}
	i := r.signed(33)
	switch {
	case r.err != nil:
	case i < 0:
		r.fail(at, ErrUnsupported, "block type %#x%s", byte(i&0x7f), typeProposal(byte(i&0x7f)))
	case i >= int64(len(w.module.types)):
		r.malformed(at, "type %d does not exist, the module has %d", i, len(w.module.types))
	default:
		t := w.module.types[i]
		return blockWidth{len(t.params), len(t.results)}
	}
	return blockWidth{}
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
	case op == opLocalGet:
		w.work.read(r.u32(), w.plan.loopDepth)
	case op == opLocalSet, op == opLocalTee:
		w.work.set(r.u32())
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

// vector reads an instruction of the SIMD proposal.
func (w *rewriter) vector(r *reader, at int) {
	n := r.u32()
	op := byte(n)
	switch {
	case r.err != nil:
	case n > 0xff || isVectorHole(op):
		r.fail(at, ErrUnsupported, "%s", refusedVector(n))
	case !shortest(n, r.pos-at-1):
		// wazero takes the first byte for the whole number.
		r.fail(at, ErrUnsupported, "vector opcode %#x written with %d bytes", n, r.pos-at-1)
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

// shortest says that a number is written with as few bytes as it can be.
func shortest(n uint32, size int) bool {
	return size == 1 || n>>(7*(size-1)) != 0
}

// misc reads an instruction with prefix 0xfc.
func (w *rewriter) misc(r *reader, at int) {
	m := w.module
	n := r.u32()
	if r.err == nil && !shortest(n, r.pos-at-1) {
		// Whatever reads the result need not know that this is allowed.
		w.edits = append(w.edits, newEdit(at, r.pos, editMisc, n))
	}
	switch {
	case r.err != nil, n <= miscTruncSatLast:
	case n == miscMemoryInit:
		s := r.index(uint32(len(m.segments)), "data segment")
		r.zero("memory")
		w.usesData = true
		w.bulk(r, at, helper{helpMemoryInit, s, 0})
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
		w.bulk(r, at, helper{helpTableInit, s, t})
	case n == miscElemDrop:
		r.index(uint32(len(m.elements)), "element segment")
	case n == miscTableCopy:
		to := r.index(uint32(len(m.tables)), "table")
		from := r.index(uint32(len(m.tables)), "table")
		w.bulk(r, at, helper{helpTableCopy, to, from})
	case n == miscTableGrow:
		w.bulk(r, at, helper{helpTableGrow, r.index(uint32(len(m.tables)), "table"), 0})
	case n == miscTableSize:
		r.index(uint32(len(m.tables)), "table")
	case n == miscTableFill:
		w.bulk(r, at, helper{helpTableFill, r.index(uint32(len(m.tables)), "table"), 0})
	default:
		r.fail(at, ErrUnsupported, "%s", refusedMisc(n))
	}
}

// bulk has the instruction from an offset to here done by a helper.
func (w *rewriter) bulk(r *reader, at int, h helper) {
	w.plan.wild = true
	if r.err != nil || w.options.Fuel == nil {
		return
	}
	// In place of a change there may be to the opcode.
	if last := len(w.edits) - 1; last >= 0 && w.edits[last].at == uint32(at) {
		w.edits = w.edits[:last]
	}
	kind := editBulk
	if h.kind == helpMemoryGrow || h.kind == helpTableGrow {
		kind = editGrow
	}
	w.edits = append(w.edits, newEdit(at, r.pos, kind, w.helpers.function(h)))
}
