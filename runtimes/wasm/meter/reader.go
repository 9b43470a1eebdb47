package meter

import "fmt"

// reader reads a part of a module. It never reads past its end; after its first
// error it returns zeros and is at its end, so that loops over it stop.
type reader struct {
	// data is the whole module, so that positions are offsets in it.
	data     []byte
	pos, end int

	section  string
	function int
	err      *Error
}

// fail records the first error, at the offset given.
func (r *reader) fail(at int, reason error, format string, args ...any) {
	if r.err == nil {
		r.err = &Error{
			Reason: reason, Section: r.section, Function: r.function, Offset: at,
			Detail: fmt.Sprintf(format, args...),
		}
	}
	r.pos = r.end
}

func (r *reader) malformed(at int, format string, args ...any) {
	r.fail(at, ErrMalformed, format, args...)
}

func (r *reader) more() bool { return r.pos < r.end }

// done reports an error if anything is left.
func (r *reader) done() {
	if r.more() {
		r.malformed(r.pos, "%d bytes follow the content", r.end-r.pos)
	}
}

func (r *reader) byte() byte {
	if r.pos >= r.end {
		r.malformed(r.pos, "content ends early")
		return 0
	}
	b := r.data[r.pos]
	r.pos++
	return b
}

// skip passes over n bytes and returns the offset of the first.
func (r *reader) skip(n uint32) int {
	start := r.pos
	if uint64(n) > uint64(r.end-r.pos) {
		r.malformed(r.pos, "%d bytes are announced and %d follow", n, r.end-r.pos)
		return start
	}
	r.pos += int(n)
	return start
}

// bytes returns the next n bytes, which alias the module.
func (r *reader) bytes(n uint32) []byte {
	start := r.skip(n)
	if r.err != nil {
		return nil
	}
	return r.data[start:r.pos:r.pos]
}

// name reads a length and as many bytes.
func (r *reader) name() string { return string(r.bytes(r.u32())) }

// u32 reads an unsigned LEB128 number of at most five bytes.
func (r *reader) u32() uint32 {
	if r.pos < r.end && r.data[r.pos] < 0x80 {
		v := uint32(r.data[r.pos])
		r.pos++
		return v
	}
	return r.longU32()
}

func (r *reader) longU32() uint32 {
	start := r.pos
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if r.err != nil {
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.malformed(start, "number does not fit 32 bits")
	return 0
}

// signed reads a signed LEB128 number of at most bits bits.
func (r *reader) signed(bits int) int64 {
	if r.pos < r.end && r.data[r.pos] < 0x80 {
		v := int64(int8(r.data[r.pos]<<1)) >> 1
		r.pos++
		return v
	}
	start := r.pos
	var v int64
	for shift := 0; shift < bits; shift += 7 {
		b := r.byte()
		if r.err != nil {
			return 0
		}
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			if bits < 64 && (v >= 1<<(bits-1) || v < -1<<(bits-1)) {
				break
			}
			return v
		}
	}
	r.malformed(start, "number does not fit %d bits", bits)
	return 0
}

// count reads how many elements follow, each of which takes at least size bytes.
// It refuses more than can follow, so that nothing is ever allocated on the word
// of the module alone, here or in the runtime that reads the result.
func (r *reader) count(size int, limit uint32, what string) uint32 {
	start := r.pos
	n := r.u32()
	switch {
	case r.err != nil:
		return 0
	case n > limit:
		r.fail(start, ErrLimit, "%d %s are more than %d", n, what, limit)
		return 0
	case uint64(n)*uint64(size) > uint64(r.end-r.pos):
		r.malformed(start, "%d %s do not fit the %d bytes that follow", n, what, r.end-r.pos)
		return 0
	}
	return n
}

// index reads an index below limit.
func (r *reader) index(limit uint32, what string) uint32 {
	start := r.pos
	i := r.u32()
	if r.err == nil && i >= limit {
		r.malformed(start, "%s %d does not exist, there are %d", what, i, limit)
		return 0
	}
	return i
}

// limits reads the bounds of a memory or table.
func (r *reader) limits() (l limits) {
	start := r.pos
	switch flags := r.byte(); {
	case r.err != nil:
	case flags > 1:
		r.fail(start, ErrUnsupported, "limits of kind %#x (shared or 64-bit memory)", flags)
	default:
		l.min = r.u32()
		l.bounded = flags == 1
		if l.bounded {
			l.max = r.u32()
		}
	}
	return l
}

// valueType reads one of the value types that can be carried along.
func (r *reader) valueType() byte {
	start := r.pos
	t := r.byte()
	if r.err == nil && !isValueType(t) {
		r.fail(start, ErrUnsupported, "value type %#x%s", t, typeProposal(t))
		return 0
	}
	return t
}

// refType reads a reference type.
func (r *reader) refType() byte {
	start := r.pos
	t := r.byte()
	if r.err == nil && t != funcref && t != externref {
		r.fail(start, ErrUnsupported, "reference type %#x%s", t, typeProposal(t))
		return 0
	}
	return t
}
