package codecache

import (
	"bytes"
	"encoding/binary"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// rewritten is what metering makes of a module.
type rewritten struct {
	module []byte
	data   []meter.Segment
}

// encode writes the number of segments, each segment's offset, length and bytes,
// and then the module; numbers are 32 bits, little-endian.
func (r rewritten) encode() []byte {
	size := 4 + len(r.module)
	for _, s := range r.data {
		size += 8 + len(s.Data)
	}
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, size), uint32(len(r.data)))
	for _, s := range r.data {
		b = binary.LittleEndian.AppendUint32(b, s.Offset)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Data)))
		b = append(b, s.Data...)
	}
	return append(b, r.module...)
}

// decode reads what encode wrote. The segments share no memory with b.
func decode(b []byte) (r rewritten, ok bool) {
	number := func() (n uint32) {
		if ok = len(b) >= 4; ok {
			n = binary.LittleEndian.Uint32(b)
			b = b[4:]
		}
		return n
	}
	for range number() {
		offset := number()
		size := number()
		if ok = ok && uint64(size) <= uint64(len(b)); !ok {
			return rewritten{}, false
		}
		r.data = append(r.data, meter.Segment{Offset: offset, Data: bytes.Clone(b[:size])})
		b = b[size:]
	}
	r.module = b
	return r, ok
}
