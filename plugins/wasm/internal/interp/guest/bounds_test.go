package guest

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero/api"
	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostile is a module that calls WASI with whatever it is told to.
func hostile() []byte {
	const i32, i64 = 0x7f, 0x7e
	four := []byte{i32, i32, i32, i32}
	calls := []struct {
		name   string
		params []byte
	}{
		{"fd_renumber", []byte{i32, i32}},
		{"fd_write", four},
		{"path_open", []byte{i32, i32, i32, i32, i32, i64, i64, i32, i32}},
		{"path_symlink", []byte{i32, i32, i32, i32, i32}},
	}
	str := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	section := func(id byte, items ...[]byte) []byte {
		body := append([]byte{byte(len(items))}, slices.Concat(items...)...)
		n := len(body)
		return append([]byte{id, byte(n&0x7f | 0x80), byte(n >> 7)}, body...)
	}
	var types, imports, funcs, exports, code [][]byte
	for i, c := range calls {
		types = append(types, slices.Concat([]byte{0x60, byte(len(c.params))}, c.params, []byte{1, i32}))
		imports = append(imports, slices.Concat(str("wasi_snapshot_preview1"), str(c.name), []byte{0, byte(i)}))
		funcs = append(funcs, []byte{byte(i)})
		exports = append(exports, slices.Concat(str(c.name), []byte{0, byte(len(calls) + i)}))
		body := []byte{0} // no locals
		for p := range c.params {
			body = append(body, 0x20, byte(p)) // local.get
		}
		body = append(body, 0x10, byte(i), 0x0b) // call, end
		code = append(code, append([]byte{byte(len(body))}, body...))
	}
	exports = append(exports, slices.Concat(str("memory"), []byte{2, 0}))
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), section(1, types...), section(2, imports...), section(3, funcs...),
		section(5, []byte{0, 32}), section(7, exports...), section(10, code...))
}

// start returns an instance of hostile whose data hold a file f.
func start(t *testing.T) (context.Context, api.Module) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/f", []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	m, err := Load(t.Context(), codecache.Cache{}, hostile(), meter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	r, err := New(t.Context(), Program{Argv: []string{"x"}, Data: Mount{Root: root, Quota: rootfs.NewQuota(rootfs.Limits{})}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	ctx := r.Context(t.Context())
	inst, err := m.Runtime.InstantiateModule(ctx, m.Code, r.ModuleConfig(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inst.Close(context.Background()) })
	return ctx, inst
}

func TestCallsThatAskTooMuch(t *testing.T) {
	ctx, inst := start(t)
	call := func(name string, params ...uint64) uint64 {
		t.Helper()
		res, err := inst.ExportedFunction(name).Call(ctx, params...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return res[0]
	}
	// The mounts are opened in the order in which they are given: "/" is 3, data 4.
	const data = 4
	mem := inst.Memory()
	mem.WriteString(0, "f")
	open := func(length uint64) uint64 { return call("path_open", data, 1, 0, length, 0, 1<<1, 0, 0, 1024) }
	if e := open(1); e != 0 {
		t.Fatalf("open of a file: errno %d", e)
	}
	fd, _ := mem.ReadUint32Le(1024)
	// A table for two thousand million descriptors would take 16 GiB.
	for _, to := range []uint64{1<<31 - 1, 1 << 20, maxDescriptor + 1} {
		if e := call("fd_renumber", uint64(fd), to); e != wasiBadFD {
			t.Errorf("renumber to %d: errno %d", to, e)
		}
	}
	if e := call("fd_renumber", uint64(fd), 77); e != 0 {
		t.Errorf("renumber to 77: errno %d", e)
	}
	if e := open(1 << 20); e != wasiNameTooLong {
		t.Errorf("open of a path of a megabyte: errno %d", e)
	}
	if e := call("path_symlink", 0, 1<<20, data, 0, 1); e != wasiNameTooLong {
		t.Errorf("link to a path of a megabyte: errno %d", e)
	}
	if e := call("fd_write", 1, 0, maxVectors+1, 2048); e != wasiInval {
		t.Errorf("write of too many vectors: errno %d", e)
	}
	if e := call("fd_write", 1, 65536, maxVectors, 2048); e != 0 {
		t.Errorf("write of as many as allowed: errno %d", e)
	}
	// Looking at the directories above the mounts costs nobody's quota.
	mem.WriteString(0, ".")
	var e uint64
	n := 0
	for ; n < 10_000 && e == 0; n++ {
		e = call("path_open", 3, 1, 0, 1, 2, 1<<1, 0, 0, 1024)
	}
	if n > maxLooking+1 {
		t.Errorf("%d directories above the mounts could be opened", n)
	}
}
