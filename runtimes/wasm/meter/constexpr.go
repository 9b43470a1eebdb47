package meter

// constExpr reads a constant expression up to its end. If w is not nil the
// expression is written to it with every function index replaced by remap's. The
// value is known if it is one i32 that depends on nothing a host provides.
func (m *module) constExpr(r *reader, w *buffer, remap func(uint32) uint32) (value int32, known bool) {
	// stack holds what is known of the operands; one deeper than an honest
	// expression ever is is not evaluated, but carried along all the same.
	type operand struct {
		value int32
		known bool
	}
	var stack [8]operand
	depth := 0
	push := func(v int32, known bool) {
		if depth < len(stack) {
			stack[depth] = operand{v, known}
		}
		depth++
	}
	for {
		at := r.pos
		op := r.byte()
		if r.err != nil {
			return 0, false
		}
		written := false
		switch op {
		case opEnd:
			if w != nil {
				w.op(op)
			}
			if depth == 1 {
				return stack[0].value, stack[0].known
			}
			return 0, false
		case opI32Const:
			push(int32(r.signed(32)), true)
		case opI64Const:
			r.signed(64)
			push(0, false)
		case opF32Const:
			r.skip(4)
			push(0, false)
		case opF64Const:
			r.skip(8)
			push(0, false)
		case opGlobalGet:
			i := r.index(uint32(len(m.globals)), "global")
			if r.err == nil {
				push(m.globals[i].value, m.globals[i].known)
			}
		case opRefNull:
			r.refType()
			push(0, false)
		case opRefFunc:
			f := r.index(m.funcs, "function")
			push(0, false)
			if w != nil && r.err == nil {
				w.op(op)
				w.u32(remap(f))
				written = true
			}
		case opI32Add, opI32Sub, opI32Mul, opI64Add, opI64Sub, opI64Mul:
			if depth < 2 {
				r.malformed(at, "constant expression lacks operands")
				return 0, false
			}
			depth--
			if depth >= len(stack) {
				break
			}
			a, b := &stack[depth-1], stack[depth]
			a.known = a.known && b.known
			switch op {
			case opI32Add:
				a.value += b.value
			case opI32Sub:
				a.value -= b.value
			case opI32Mul:
				a.value *= b.value
			default:
				a.known = false
			}
		case opPrefixVector:
			if sub := r.u32(); r.err == nil && (sub != vectorConst || r.pos != at+2) {
				r.malformed(at, "opcode 0xfd %#x in a constant expression", sub)
			}
			r.skip(16)
			push(0, false)
		default:
			r.fail(at, ErrUnsupported, "%s in a constant expression", refusedName(op))
		}
		if r.err != nil {
			return 0, false
		}
		if w != nil && !written {
			w.raw(r.data[at:r.pos])
		}
	}
}
