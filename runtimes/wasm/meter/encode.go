package meter

import "encoding/binary"

// buffer is a part of the module that is written.
type buffer []byte

func (b *buffer) raw(p []byte)       { *b = append(*b, p...) }
func (b *buffer) op(opcodes ...byte) { *b = append(*b, opcodes...) }
func (b *buffer) u32(v uint32)       { *b = binary.AppendUvarint(*b, uint64(v)) }

// signed writes a signed LEB128 number.
func (b *buffer) signed(v int64) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			*b = append(*b, c)
			return
		}
		*b = append(*b, c|0x80)
	}
}

// sized writes a length and the bytes.
func (b *buffer) sized(p []byte) {
	b.u32(uint32(len(p)))
	b.raw(p)
}

func (b *buffer) name(s string) {
	b.u32(uint32(len(s)))
	*b = append(*b, s...)
}

func (b *buffer) limits(l limits) {
	if !l.bounded {
		b.op(0)
		b.u32(l.min)
		return
	}
	b.op(1)
	b.u32(l.min)
	b.u32(l.max)
}

// The instructions that appended code is made of.

func (b *buffer) i32(v int32)          { b.op(opI32Const); b.signed(int64(v)) }
func (b *buffer) i64(v int64)          { b.op(opI64Const); b.signed(v) }
func (b *buffer) get(local uint32)     { b.op(opLocalGet); b.u32(local) }
func (b *buffer) set(local uint32)     { b.op(opLocalSet); b.u32(local) }
func (b *buffer) tee(local uint32)     { b.op(opLocalTee); b.u32(local) }
func (b *buffer) call(function uint32) { b.op(opCall); b.u32(function) }

// memory writes a load or store without alignment, which the code that is
// appended cannot know.
func (b *buffer) memory(op byte, offset uint32) { b.op(op, 0); b.u32(offset) }
