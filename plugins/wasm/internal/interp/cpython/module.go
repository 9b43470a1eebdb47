package cpython

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"
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
	sectionExport = 7
	sectionData   = 11
	kindFunction  = 0
	kindGlobal    = 3
	opI32Const    = 0x41
	opEnd         = 0x0b
	typeI32       = 0x7f
)

// What the pinned build does not export and a snapshot needs.
const (
	exportRun          = "caisson_run"
	exportStackPointer = "caisson_stack_pointer"

	// simpleString is the index of PyRun_SimpleStringFlags. The build has no
	// names; packs.Table pins the file, and a boot that calls anything else fails.
	simpleString = 3666
	stackPointer = 0
)

// static is the module's static data: what an instance that boots gets, and one
// that starts from a snapshot does not need.
type static []segment

type segment struct {
	offset uint32
	data   []byte
}

func (s static) write(mem api.Memory) bool {
	for _, seg := range s {
		if !mem.Write(seg.offset, seg.data) {
			return false
		}
	}
	return true
}

// prepare changes the module in three ways: its C stack moves to new memory
// behind its static data, its static data is taken out, and two exports are
// added. It returns the changed module, the data and the new least memory size.
//
// It relies on what the pinned build is like: global 0 is the stack pointer, and
// the allocator takes new memory from the end at run time, so that it never sees
// the pages added here.
func prepare(wasm []byte) (out []byte, data static, minBytes int64, err error) {
	if len(wasm) < 8 || string(wasm[:4]) != "\x00asm" {
		return nil, nil, 0, errors.New("not a WebAssembly module")
	}
	out = append(out, wasm[:8]...)
	var top uint64 // where the new stack starts and grows down from
	for rest := wasm[8:]; len(rest) > 0; {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || uint64(len(rest)-1-n) < size {
			return nil, nil, 0, errors.New("a section is cut off")
		}
		section := rest[:1+n+int(size)]
		body := section[1+n:]
		rest = rest[len(section):]
		switch id {
		case sectionMemory:
			body, top, err = growMemory(body)
		case sectionGlobal:
			body, err = setStackPointer(body, top)
		case sectionExport:
			body, err = addExports(body)
		case sectionData:
			if data, err = readData(body); err == nil {
				continue
			}
		default:
			out = append(out, section...)
			continue
		}
		if err != nil {
			return nil, nil, 0, err
		}
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
	}
	if top == 0 || data == nil {
		return nil, nil, 0, errors.New("no memory or data section")
	}
	return out, data, int64(top), nil
}

func addExports(body []byte) ([]byte, error) {
	count, n := binary.Uvarint(body)
	if n <= 0 {
		return nil, errors.New("bad export section")
	}
	out := append(binary.AppendUvarint(nil, count+2), body[n:]...)
	for _, e := range []struct {
		name  string
		kind  byte
		index uint64
	}{{exportRun, kindFunction, simpleString}, {exportStackPointer, kindGlobal, stackPointer}} {
		out = append(binary.AppendUvarint(out, uint64(len(e.name))), e.name...)
		out = binary.AppendUvarint(append(out, e.kind), e.index)
	}
	return out, nil
}

// readData reads active segments of memory 0 with constant offsets, the only
// kind that the build has.
func readData(body []byte) (static, error) {
	bad := errors.New("bad data section: expected active segments with constant offsets")
	count, n := binary.Uvarint(body)
	if n <= 0 || count > uint64(len(body)) {
		return nil, bad
	}
	body = body[n:]
	data := make(static, 0, count)
	for range count {
		if len(body) < 2 || body[0] != 0 || body[1] != opI32Const {
			return nil, bad
		}
		offset, n := readSigned(body[2:])
		body = body[2+n:]
		if n == 0 || len(body) == 0 || body[0] != opEnd {
			return nil, bad
		}
		size, m := binary.Uvarint(body[1:])
		if m <= 0 || uint64(len(body)-1-m) < size {
			return nil, bad
		}
		body = body[1+m:]
		data = append(data, segment{uint32(offset), body[:size]})
		body = body[size:]
	}
	return data, nil
}

// readSigned reads signed LEB128; n is 0 when there is none.
func readSigned(b []byte) (v int64, n int) {
	for shift := uint(0); n < len(b) && shift < 35; {
		c := b[n]
		n++
		v |= int64(c&0x7f) << shift
		shift += 7
		if c < 0x80 {
			if c&0x40 != 0 {
				v |= -1 << shift
			}
			return v, n
		}
	}
	return 0, 0
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
