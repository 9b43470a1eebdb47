package cpython

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// module has one memory of 3 pages, one global, no exports and one data segment.
var module = []byte{
	0, 'a', 's', 'm', 1, 0, 0, 0,
	5, 3, 1, 0, 3,
	6, 6, 1, typeI32, 1, opI32Const, 0x20, opEnd,
	7, 1, 0,
	11, 7, 1, 0, opI32Const, 0x7f, opEnd, 1, 'd',
	0, 2, 1, 'x',
}

func TestPrepare(t *testing.T) {
	out, data, size, err := prepare(module)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(3*pageBytes + stackBytes); size != want {
		t.Errorf("memory of %d bytes, want %d", size, want)
	}
	pages := binary.AppendUvarint(nil, 3+stackBytes/pageBytes)
	pointer := appendSigned(nil, size)
	exports := append([]byte{2, byte(len(exportRun))}, exportRun...)
	exports = append(binary.AppendUvarint(append(exports, kindFunction), simpleString), byte(len(exportStackPointer)))
	exports = append(append(exports, exportStackPointer...), kindGlobal, stackPointer)
	want := append([]byte{0, 'a', 's', 'm', 1, 0, 0, 0, 5, byte(2 + len(pages)), 1, 0}, pages...)
	want = append(want, 6, byte(5+len(pointer)), 1, typeI32, 1, opI32Const)
	want = append(append(want, pointer...), opEnd, 7, byte(len(exports)))
	want = append(append(want, exports...), 0, 2, 1, 'x')
	if !bytes.Equal(out, want) {
		t.Errorf("module is % x\nwant      % x", out, want)
	}
	if len(data) != 1 || data[0].offset != 1<<32-1 || string(data[0].data) != "d" {
		t.Errorf("data is %+v", data)
	}
}

func FuzzPrepare(f *testing.F) {
	f.Add(module)
	f.Add(module[:12])
	f.Add([]byte{0, 'a', 's', 'm', 1, 0, 0, 0, 5, 3, 1, 1, 3})
	f.Add([]byte{0, 'a', 's', 'm', 1, 0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 'a', 's', 'm', 1, 0, 0, 0, 11, 5, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		out, data, size, err := prepare(b)
		if err == nil && (len(out) < 8 || size < stackBytes || data == nil) {
			t.Errorf("%d bytes, memory of %d", len(out), size)
		}
	})
}
