package agentwire

import (
	"encoding/binary"
	"math"
	"time"
)

// coder writes or reads a message: the same code describes both. Strings are bytes and
// arrive as they were. Reading stops at the first thing that is wrong, leaves zero
// values from there on, and never allocates more than a small multiple of its input.
type coder struct {
	buf     []byte
	reading bool
	bad     bool
}

// Message is something with a form on the wire: one of this package's own types.
type Message interface{ code(c *coder) }

// Encode returns the form of m.
func Encode(m Message) []byte {
	c := coder{}
	m.code(&c)
	return c.buf
}

// Decode reads m from all of b. Strings and byte slices of m may share b.
func Decode(b []byte, m Message) error {
	c := coder{buf: b, reading: true}
	m.code(&c)
	if c.bad {
		return protocolError("malformed %T", m)
	}
	if len(c.buf) > 0 {
		return protocolError("%d bytes after %T", len(c.buf), m)
	}
	return nil
}

func (c *coder) fail() {
	c.bad = true
	c.buf = nil
}

func (c *coder) uint(v *uint64) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	n, size := binary.Uvarint(c.buf)
	if size <= 0 {
		c.fail()
		n, size = 0, 0
	}
	*v = n
	c.buf = c.buf[size:]
}

func (c *coder) int(v *int64) {
	u := uint64(*v)<<1 ^ uint64(*v>>63) // zigzag
	c.uint(&u)
	*v = int64(u>>1) ^ -int64(u&1)
}

func (c *coder) num(v *int) {
	n := int64(*v)
	c.int(&n)
	*v = int(n)
}

func (c *coder) mode(v *uint32) {
	u := uint64(*v)
	if c.uint(&u); u > math.MaxUint32 {
		c.fail()
		u = 0
	}
	*v = uint32(u)
}

func (c *coder) byte(v *byte) {
	u := uint64(*v)
	if c.uint(&u); u > math.MaxUint8 {
		c.fail()
		u = 0
	}
	*v = byte(u)
}

func (c *coder) bool(v *bool) {
	b := byte(0)
	if *v {
		b = 1
	}
	if c.byte(&b); b > 1 {
		c.fail()
	}
	*v = b == 1
}

func (c *coder) dur(v *time.Duration) { c.int((*int64)(v)) }

// time has the precision of nanoseconds and no zone; the zero time stays zero.
func (c *coder) time(v *time.Time) {
	set := !v.IsZero()
	if c.bool(&set); !set {
		*v = time.Time{}
		return
	}
	n := v.UnixNano()
	c.int(&n)
	*v = time.Unix(0, n).UTC()
}

func (c *coder) bytes(v *[]byte) {
	n := uint64(len(*v))
	c.uint(&n)
	if !c.reading {
		c.buf = append(c.buf, *v...)
		return
	}
	if n > uint64(len(c.buf)) {
		c.fail()
		n = 0
	}
	*v = c.buf[:n:n]
	c.buf = c.buf[n:]
}

func (c *coder) str(v *string) {
	if !c.reading {
		n := uint64(len(*v))
		c.uint(&n)
		c.buf = append(c.buf, *v...)
		return
	}
	var b []byte
	c.bytes(&b)
	*v = string(b)
}

// list codes the elements of a slice. An element takes at least a byte, so that a
// length is never believed beyond what is there; growth follows what was read.
func list[T any](c *coder, v *[]T, each func(*T)) {
	n := uint64(len(*v))
	c.uint(&n)
	if !c.reading {
		for i := range *v {
			each(&(*v)[i])
		}
		return
	}
	*v = nil
	if n > uint64(len(c.buf)) {
		c.fail()
		return
	}
	for range n {
		var t T
		if each(&t); c.bad {
			return
		}
		*v = append(*v, t)
	}
}

func (c *coder) strs(v *[]string) { list(c, v, func(s *string) { c.str(s) }) }
