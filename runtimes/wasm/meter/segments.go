package meter

import "math"

// Segment is an active data segment that was taken out of a module.
type Segment struct {
	// Offset is where in memory the bytes go. Whether there is so much memory is for
	// the caller to see to, before the module runs.
	Offset uint32
	// Data aliases the module that was given to Rewrite.
	Data []byte
}

// segment is a data segment of the input.
type segment struct {
	active bool
	// offset is the constant expression, and value its value if known.
	offset span
	value  uint32
	known  bool
	bytes  span
}

func (m *module) readDataCount(r *reader) {
	m.dataCount = r.u32()
}

func (m *module) readData(r *reader) {
	at := r.pos
	n := r.count(2, m.limits.DataSegments, "data segments")
	if r.err == nil && m.sections[secDataCount] != nil && n != m.dataCount {
		r.malformed(at, "%d data segments, and a count of %d", n, m.dataCount)
		return
	}
	m.segments = make([]segment, 0, n)
	for range n {
		at := r.pos
		var s segment
		switch flags := r.u32(); flags {
		case 2, 0:
			s.active = true
			if flags == 2 {
				if index := r.u32(); r.err == nil && index != 0 {
					r.fail(at, ErrUnsupported, "data segment of memory %d (multi-memory)", index)
				}
			}
			s.offset.start = r.pos
			value, known := m.constExpr(r, nil, nil)
			s.offset.end = r.pos
			s.value, s.known = uint32(value), known
		case 1:
		default:
			r.malformed(at, "data segment of kind %d", flags)
		}
		size := r.u32()
		s.bytes.start = r.skip(size)
		if r.err != nil {
			return
		}
		s.bytes.end = r.pos
		m.segments = append(m.segments, s)
	}
}

// data writes the data count and data sections. referenced says that code names
// data segments by index.
func (w *rewriter) data(referenced bool) (dataCount, data buffer, err error) {
	m := w.module
	var body buffer
	kept := uint32(0)
	for i, s := range m.segments {
		switch {
		case s.active && !w.options.DropData:
			body.op(0)
			body.raw(m.data[s.offset.start:s.offset.end])
			body.sized(m.data[s.bytes.start:s.bytes.end])
			kept++
		case !s.active:
			body.op(1)
			body.sized(m.data[s.bytes.start:s.bytes.end])
			kept++
		default:
			if !s.known {
				return nil, nil, optionError("data segment %d cannot be dropped: its offset depends on an import", i)
			}
			w.result.Data = append(w.result.Data, Segment{s.value, m.data[s.bytes.start:s.bytes.end:s.bytes.end]})
			// To the code that names it, a segment that was active is one that has
			// been dropped, and so is an empty one.
			if referenced {
				body.op(1, 0)
				kept++
			}
		}
	}
	if m.sections[secDataCount] != nil {
		dataCount.u32(kept)
	}
	if m.sections[secData] != nil && (kept > 0 || len(m.segments) == 0) {
		data.u32(kept)
		data.raw(body)
	}
	return dataCount, data, nil
}

// segmentBytes is the length of a data segment, or 0 for one that does not exist.
func (m *module) segmentBytes(i uint32) uint64 {
	if i >= uint32(len(m.segments)) {
		return 0
	}
	s := m.segments[i].bytes
	return uint64(s.end - s.start)
}

// sizeDetail is the text of a module that is too large.
func sizeDetail(size, limit int) string {
	if limit == math.MaxInt {
		return "too large"
	}
	return itoa(size) + " bytes are more than " + itoa(limit)
}
