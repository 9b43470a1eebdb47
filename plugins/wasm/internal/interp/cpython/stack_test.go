package cpython

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// module is an empty module with one memory of 3 pages and one global.
var module = []byte{
	0, 'a', 's', 'm', 1, 0, 0, 0,
	5, 3, 1, 0, 3,
	6, 6, 1, typeI32, 1, opI32Const, 0x20, opEnd,
	0, 2, 1, 'x',
}

func TestEnlargeStack(t *testing.T) {
	out, size, err := enlargeStack(module)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(3*pageBytes + stackBytes); size != want {
		t.Errorf("memory of %d bytes, want %d", size, want)
	}
	pages := binary.AppendUvarint(nil, 3+stackBytes/pageBytes)
	pointer := appendSigned(nil, size)
	want := append([]byte{0, 'a', 's', 'm', 1, 0, 0, 0, 5, byte(2 + len(pages)), 1, 0}, pages...)
	want = append(want, 6, byte(5+len(pointer)), 1, typeI32, 1, opI32Const)
	want = append(append(want, pointer...), opEnd, 0, 2, 1, 'x')
	if !bytes.Equal(out, want) {
		t.Errorf("module is % x\nwant      % x", out, want)
	}
}

func FuzzEnlargeStack(f *testing.F) {
	f.Add(module)
	f.Add(module[:12])
	f.Add([]byte{0, 'a', 's', 'm', 1, 0, 0, 0, 5, 3, 1, 1, 3})
	f.Add([]byte{0, 'a', 's', 'm', 1, 0, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		out, size, err := enlargeStack(b)
		if err == nil && (len(out) < 8 || size < stackBytes) {
			t.Errorf("%d bytes, memory of %d", len(out), size)
		}
	})
}
