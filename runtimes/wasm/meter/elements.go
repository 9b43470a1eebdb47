package meter

// readElements reads the element section and, if w is not nil, writes it with
// every function index replaced by remap's.
func (m *module) readElements(r *reader, w *buffer, remap func(uint32) uint32) {
	n := r.count(2, m.limits.ElementSegments, "element segments")
	m.elements = m.elements[:0]
	if w != nil {
		w.u32(n)
	}
	for range n {
		m.elements = append(m.elements, m.readElement(r, w, remap))
		if r.err != nil {
			return
		}
	}
}

// readElement reads one segment and returns its length. Its kind is three bits:
// not active, or else with a table index; declared only, or else with a table
// index; and expressions rather than function indices.
func (m *module) readElement(r *reader, w *buffer, remap func(uint32) uint32) uint32 {
	const (
		notActive = 1 << iota
		explicit
		expressions
	)
	start := r.pos
	kind := r.u32()
	if r.err == nil && kind > 7 {
		r.malformed(start, "element segment of kind %d", kind)
		return 0
	}
	if w != nil {
		w.u32(kind)
	}
	if kind&notActive == 0 {
		if kind&explicit != 0 {
			t := r.index(uint32(len(m.tables)), "table")
			if w != nil {
				w.u32(t)
			}
		}
		m.constExpr(r, w, remap)
	}
	if kind&(notActive|explicit) != 0 {
		at := r.pos
		if kind&expressions != 0 {
			r.refType()
		} else if k := r.byte(); r.err == nil && k != 0 {
			r.malformed(at, "elements of kind %#x", k)
		}
		if w != nil && r.err == nil {
			w.raw(r.data[at:r.pos])
		}
	}
	size := 1
	if kind&expressions != 0 {
		size = 2
	}
	n := r.count(size, m.limits.Elements, "elements")
	if w != nil {
		w.u32(n)
	}
	for range n {
		if kind&expressions != 0 {
			m.constExpr(r, w, remap)
		} else {
			f := r.index(m.funcs, "function")
			if w != nil && r.err == nil {
				w.u32(remap(f))
			}
		}
		if r.err != nil {
			return 0
		}
	}
	return n
}
