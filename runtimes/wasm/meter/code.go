package meter

// edit is a change to a body: the bytes from at to end give way to what it writes.
type edit struct {
	at, end, arg uint32
	kind         editKind
}

func newEdit(at, end int, kind editKind, arg uint32) edit {
	return edit{uint32(at), uint32(end), arg, kind}
}

type editKind uint8

const (
	editCall editKind = iota // call function arg
	editBulk                 // call function arg, which does the same
	editGrow                 // likewise, and it grows something
	editTail                 // return_call function arg
	editRef                  // ref.func of function arg
	editMisc                 // write opcode arg of prefix 0xfc
)

// body reads the code of one function and writes it to out.
func (w *rewriter) body(r *reader, out *buffer) {
	size := r.u32()
	start := r.skip(size)
	if r.err != nil {
		return
	}
	if most := w.module.limits.FunctionBytes; int64(size) > int64(most) {
		r.fail(start, ErrLimit, "%d bytes are more than %d", size, most)
		return
	}
	b := &reader{data: r.data, pos: start, end: r.pos, section: r.section, function: r.function}
	first := w.scan(b)
	if b.err != nil {
		r.err = b.err
		return
	}
	w.plan.settle()
	if w.options.Fuel != nil && w.quiet[r.function-int(w.module.importedFuncs)] > 0 {
		w.plan.silence()
	}
	w.result.Report.Functions++
	w.result.Report.Loops += w.plan.loops
	w.scratch = w.scratch[:0]
	w.scratch.raw(r.data[start:first])
	w.emit(&w.scratch, r.data, first, b.end)
	out.sized(w.scratch)
}

// scan reads a body and plans it. It returns the offset of the first instruction.
func (w *rewriter) scan(r *reader) int {
	w.locals(r)
	first := r.pos
	w.edits = w.edits[:0]
	if r.err != nil {
		return first
	}
	w.plan.begin(first, len(w.module.typeOf(uint32(r.function)).results))
	w.walk(r)
	w.work.allOperands += w.work.operands
	return first
}

// locals reads the declarations of local variables.
func (w *rewriter) locals(r *reader) {
	at := r.pos
	t := w.module.typeOf(uint32(r.function))
	total := uint64(0)
	defer func() {
		if r.err == nil {
			if w.work.allLocals += total; w.work.allLocals > uint64(w.module.limits.AllLocals) {
				r.fail(at, ErrLimit, "locals of all functions are more than %d", w.module.limits.AllLocals)
				return
			}
			w.work.begin(len(t.params)+int(total), t.width())
		}
	}()
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
		for ; next < len(points) && points[next].at <= uint32(at); next++ {
			p := &points[next]
			cost := p.cost()
			if cost == 0 && !p.look {
				continue
			}
			out.raw(data[from:p.at])
			from = int(p.at)
			w.charge(out, int64(cost), p.look)
			w.result.Report.Charges++
		}
	}
	for _, e := range w.edits {
		flush(int(e.at))
		out.raw(data[from:e.at])
		switch e.kind {
		case editCall:
			out.call(e.arg)
		case editGrow, editBulk:
			w.result.Report.BulkOps++
			if e.kind == editGrow {
				w.result.Report.GrowOps++
			}
			out.call(e.arg)
		case editTail:
			out.op(opReturnCall)
			out.u32(e.arg)
		case editRef:
			out.op(opRefFunc)
			out.u32(e.arg)
		case editMisc:
			out.op(opPrefixMisc)
			out.u32(e.arg)
		}
		from = int(e.end)
	}
	flush(end)
	out.raw(data[from:end])
}
