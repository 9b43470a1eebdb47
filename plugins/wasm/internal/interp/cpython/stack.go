package cpython

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// stackBytes is the size of the C stack given to the interpreter. The build's
// own 512 KiB end after some 300 nested calls between C and Python, long before
// CPython's own limit of 1000 that makes a RecursionError of it. A program that
// raises the limit and then recurses through C beyond this stack overwrites its
// own data, where a native process would crash; the host does not notice.
const stackBytes = 16 << 20

const pageBytes = 64 << 10

// Section ids and opcodes of the WebAssembly binary format.
const (
	sectionMemory = 5
	sectionGlobal = 6
	opI32Const    = 0x41
	opEnd         = 0x0b
	typeI32       = 0x7f
)

// enlargeStack moves the C stack of a module to new memory behind its static
// data and returns the changed module with its new least memory size. It relies
// on what the pinned build is like: global 0 is the stack pointer, and the
// allocator takes new memory from the end at run time, so that it never sees
// the pages added here.
func enlargeStack(wasm []byte) (out []byte, minBytes int64, err error) {
	if len(wasm) < 8 || string(wasm[:4]) != "\x00asm" {
		return nil, 0, errors.New("not a WebAssembly module")
	}
	out = append(out, wasm[:8]...)
	var top uint64 // where the new stack starts and grows down from
	for rest := wasm[8:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || uint64(len(rest)-1-n) < size {
			return nil, 0, errors.New("a section is cut off")
		}
		section := rest[:1+n+int(size)]
		body := section[1+n:]
		rest = rest[len(section):]
		switch id {
		case sectionMemory:
			body, top, err = growMemory(body)
		case sectionGlobal:
			body, err = setStackPointer(body, top)
		default:
			out = append(out, section...)
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	if top == 0 {
		return nil, 0, errors.New("no memory section")
	}
	return out, int64(top), nil
}

// growMemory adds the stack's pages to the one memory and returns its new end.
func growMemory(body []byte) ([]byte, uint64, error) {
	const count, noMaximum = 1, 0
	if len(body) < 3 || body[0] != count || body[1] != noMaximum {
		return nil, 0, errors.New("expected one memory without a maximum")
	}
	pages, n := binary.Uvarint(body[2:])
	if n <= 0 || 2+n != len(body) || pages > 1<<14 {
		return nil, 0, errors.New("bad memory size")
	}
	pages += stackBytes / pageBytes
	return binary.AppendUvarint([]byte{count, noMaximum}, pages), pages * pageBytes, nil
}

// setStackPointer changes the initial value of the one global.
func setStackPointer(body []byte, top uint64) ([]byte, error) {
	prefix := []byte{1, typeI32, 1, opI32Const} // one mutable i32
	if top == 0 || len(body) < len(prefix)+2 || string(body[:len(prefix)]) != string(prefix) || body[len(body)-1] != opEnd {
		return nil, fmt.Errorf("expected one global, the stack pointer")
	}
	return append(appendSigned(prefix, int64(top)), opEnd), nil
}

// appendSigned appends v in signed LEB128.
func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
