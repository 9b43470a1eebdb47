package meter

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// unstableModuleBytes exports what it imports from the first snapshot of WASI, under
// the same names.
func unstableModuleBytes() []byte {
	a := &assembler{}
	functions := []struct{ name, params string }{
		{"fd_seek", "ilii"}, {"fd_filestat_get", "ii"}, {"path_filestat_get", "iiiii"}, {"poll_oneoff", "iiii"}, {"fd_close", "i"},
	}
	for _, f := range functions {
		a.importFunc(unstableModule, f.name, f.params, "i")
	}
	a.mem(1, 1)
	for i, f := range functions {
		a.exportFn(f.name, f.params, "i", "", func(b *buffer) {
			for p := range f.params {
				b.get(uint32(p))
			}
			b.call(uint32(i))
		})
	}
	// Calls by reference have to reach the shim too.
	a.table(funcref, 1, 1)
	a.elements = append(a.elements, entry(func(b *buffer) { b.op(0); b.i32(0); b.op(opEnd, 1, 0) }))
	t := a.typ("ilii", "i")
	a.exportFn("indirect", "ilii", "i", "", func(b *buffer) {
		for p := range uint32(4) {
			b.get(p)
		}
		b.i32(0)
		b.op(opCallIndirect)
		b.u32(t)
		b.op(0)
	})
	a.export("direct", kindFunction, 0)
	return a.bytes()
}

// preview1 is a host whose functions do what a test says.
type preview1 map[string]func(m api.Module, args []uint64) uint32

func (p preview1) instantiate(t *testing.T) api.Module {
	t.Helper()
	r := newRuntime(t)
	refillFrom(t, r, 100)
	const i, l = api.ValueTypeI32, api.ValueTypeI64
	b := r.NewHostModuleBuilder(preview1Module)
	for name, params := range map[string][]api.ValueType{
		"fd_seek": {i, l, i, i}, "fd_filestat_get": {i, i}, "path_filestat_get": {i, i, i, i, i}, "poll_oneoff": {i, i, i, i}, "fd_close": {i},
	} {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
			stack[0] = uint64(p[name](m, stack))
		}), params, []api.ValueType{i}).Export(name)
	}
	if _, err := b.Instantiate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return instantiate(t, r, rewrite(t, unstableModuleBytes(), Options{Unstable: true, Fuel: &Fuel{}}).Module)
}

func TestUnstableSeek(t *testing.T) {
	var got [4]uint64
	m := preview1{"fd_seek": func(_ api.Module, args []uint64) uint32 { copy(got[:], args); return 7 }}.instantiate(t)
	// In the first snapshot: current, end, start; in preview 1: start, current, end.
	for whence, want := range []uint32{1, 2, 0, 3, 4} {
		for _, f := range []string{"fd_seek", "indirect", "direct"} {
			out, trapped := call(m, f, 5, 1<<40, uint64(whence), 99)
			if trapped != "" || out[0] != 7 {
				t.Fatal(out, trapped)
			}
			if uint32(got[0]) != 5 || got[1] != 1<<40 || uint32(got[2]) != want || uint32(got[3]) != 99 {
				t.Errorf("%s from %d: %v", f, whence, got)
			}
		}
	}
}

func TestUnstableStat(t *testing.T) {
	const size = 1 << 16
	// What preview 1 writes: dev, ino, kind, links, size, and three times.
	fields := []uint64{0x1111111111111111, 0x2222222222222222, 4, 0x33333333, 0x4444444444444444, 5, 6, 7}
	var errno uint32
	stat := func(m api.Module, args []uint64) uint32 {
		if errno != 0 {
			return errno
		}
		at := uint32(args[len(args)-1])
		if len(args) == 5 && (uint32(args[0]) != 3 || uint32(args[1]) != 1 || uint32(args[2]) != 2000 || uint32(args[3]) != 12) {
			t.Errorf("arguments %v", args)
		}
		for i, f := range fields {
			if !m.Memory().WriteUint64Le(at+uint32(i)*8, f) {
				return errnoFault
			}
		}
		return 0
	}
	m := preview1{"fd_filestat_get": stat, "path_filestat_get": stat}.instantiate(t)
	memory, _ := m.Memory().Read(0, size)
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	for _, c := range []struct {
		at      uint32
		errno   uint32
		want    uint32
		written bool
	}{
		{at: 1000, written: true},
		{at: 0, written: true},
		{at: 3, written: true},
		{at: size - 64, written: true},
		{at: size - 63, written: true},
		{at: size - 56, written: true},
		{at: size - 55, want: errnoFault},
		{at: size, want: errnoFault},
		{at: 0xffffffff, want: errnoFault},
		{at: 1000, errno: 44, want: 44},
		{at: size - 56, errno: 44, want: 44},
	} {
		for _, f := range []string{"fd_filestat_get", "path_filestat_get"} {
			errno = c.errno
			want := bytes.Clone(memory)
			if c.written {
				// dev, ino, kind, links, size, times in 56 bytes.
				out := want[c.at:]
				for i, v := range fields[:3] {
					binary.LittleEndian.PutUint64(out[i*8:], v)
				}
				binary.LittleEndian.PutUint32(out[20:], uint32(fields[3]))
				for i, v := range fields[4:] {
					binary.LittleEndian.PutUint64(out[24+i*8:], v)
				}
			}
			args := []uint64{3, uint64(c.at)}
			if f == "path_filestat_get" {
				args = []uint64{3, 1, 2000, 12, uint64(c.at)}
			}
			out, trapped := call(m, f, args...)
			if trapped != "" || uint32(out[0]) != c.want {
				t.Errorf("%s at %#x: %v %s", f, c.at, out, trapped)
				continue
			}
			if !bytes.Equal(memory, want) {
				t.Errorf("%s at %#x, errno %d: memory differs", f, c.at, c.errno)
			}
			for i := range memory {
				memory[i] = byte(i * 7)
			}
		}
	}
}

// subscription is one in the first snapshot's layout: 56 bytes.
func subscription(userdata uint64, kind byte, words ...uint64) []byte {
	b := make([]byte, subSize)
	binary.LittleEndian.PutUint64(b, userdata)
	b[subTag] = kind
	for i, w := range words {
		binary.LittleEndian.PutUint64(b[subUnion+i*8:], w)
	}
	return b
}

func TestUnstablePoll(t *testing.T) {
	const at, out, count = 1003, 40_000, 33
	var subs, want [][]byte
	for i := range uint64(count) {
		if i%3 == 1 { // to a descriptor
			subs = append(subs, subscription(i, byte(1+i%2), 5+i))
			want = append(want, subscription(i, byte(1+i%2), 5+i)[:20])
			continue
		}
		// to a clock: identifier, clock, timeout, precision, flags
		clock := []uint64{0xa1a2a3a4a5a6a7a8 + i, i % 2, 1e9 + i, 17 * i, i % 2}
		subs = append(subs, subscription(i, 0, clock...))
		want = append(want, subscription(i, 0, clock[1:]...)[:sub1Size])
	}
	errno := uint32(0)
	m := preview1{"poll_oneoff": func(m api.Module, args []uint64) uint32 {
		if uint32(args[0]) != at || uint32(args[1]) != out || uint32(args[2]) != count || uint32(args[3]) != 8 {
			t.Errorf("arguments %v", args)
		}
		for i, w := range want {
			got, _ := m.Memory().Read(at+uint32(i)*sub1Size, sub1Size)
			got = bytes.Clone(got)
			if w[subTag] == 0 { // the spare bytes say nothing
				clear(got[sub1Spare20:24])
				clear(got[42:])
			}
			if !bytes.Equal(got[:len(w)], w) {
				t.Errorf("subscription %d:\n%x\n%x", i, got[:len(w)], w)
			}
		}
		m.Memory().WriteUint32Le(8, 5)
		return errno
	}}.instantiate(t)
	for _, errno = range []uint32{0, 28} {
		m.Memory().Write(at, bytes.Join(subs, nil))
		m.Memory().WriteUint64Le(at-8, 0x0123456789abcdef)
		m.Memory().WriteUint64Le(at+count*subSize, 0xfedcba9876543210)
		res, trapped := call(m, "poll_oneoff", at, out, count, 8)
		if trapped != "" || uint32(res[0]) != errno {
			t.Fatal(res, trapped)
		}
		for i, s := range subs {
			got, _ := m.Memory().Read(at+uint32(i)*subSize, subSize)
			got = bytes.Clone(got)
			n := subSize
			if s[subTag] == 0 { // but for what pads it
				clear(got[28:32])
				clear(got[50:56])
			} else {
				n = 20
			}
			if !bytes.Equal(got[:n], s[:n]) {
				t.Errorf("subscription %d afterwards:\n%x\n%x", i, got[:n], s[:n])
			}
		}
		before, _ := m.Memory().ReadUint64Le(at - 8)
		after, _ := m.Memory().ReadUint64Le(at + count*subSize)
		if before != 0x0123456789abcdef || after != 0xfedcba9876543210 {
			t.Errorf("what is around is %x and %x", before, after)
		}
	}
	for _, c := range [][2]uint64{{65536 - 55, 1}, {0, 1171}, {8, 0x04924925}, {0xffffffff, 0xffffffff}} {
		if res, trapped := call(m, "poll_oneoff", c[0], 0, c[1], 8); trapped != "" || uint32(res[0]) != errnoFault {
			t.Errorf("%v: %v %s", c, res, trapped)
		}
	}
}

func TestUnstableOthers(t *testing.T) {
	m := preview1{"fd_close": func(_ api.Module, args []uint64) uint32 { return uint32(args[0]) + 1 }}.instantiate(t)
	if out, trapped := call(m, "fd_close", 8); trapped != "" || out[0] != 9 {
		t.Error(out, trapped)
	}

	a := &assembler{}
	a.importFunc(unstableModule, "fd_seek", "iii", "i")
	a.mem(1, 1)
	_, err := Rewrite(a.bytes(), Options{Unstable: true})
	if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "wasi_unstable.fd_seek") {
		t.Errorf("of another type: %v", err)
	}
}
