package meter

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// goldenModules are small modules and what is done to them.
func goldenModules() map[string]struct {
	module []byte
	opts   Options
} {
	type golden = struct {
		module []byte
		opts   Options
	}
	fuel := Options{Fuel: &Fuel{Seed: 1000}}
	out := map[string]golden{}

	control := &assembler{}
	host := control.importFunc("env", "host", "", "")
	leaf := control.fn("i", "i", "", func(b *buffer) { b.get(0); b.i32(1); b.op(opI32Add) })
	control.exportFn("control", "i", "i", "", func(b *buffer) {
		b.op(opBlock, blockVoid)
		b.get(0)
		b.op(opBrIf, 0)
		b.op(opLoop, blockVoid)
		b.get(0)
		b.call(leaf)
		b.tee(0)
		b.op(opIf, blockVoid)
		b.call(host)
		b.op(opElse)
		b.get(0)
		for range 70 {
			b.op(opI32Eqz)
		}
		b.op(opDrop)
		b.op(opEnd)
		b.get(0)
		b.op(opBrIf, 0, opEnd, opEnd)
		b.get(0)
	})
	control.start = 1 + int(control.fn("", "", "", func(*buffer) {}))
	out["control"] = golden{control.bytes(), fuel}

	bulk := &assembler{count: true}
	bulk.mem(1, 0)
	bulk.passive([]byte("abc"))
	bulk.exportFn("bulk", "iii", "i", "", func(b *buffer) {
		for _, code := range [][]byte{
			{opPrefixMisc, miscMemoryCopy, 0, 0}, {opPrefixMisc, miscMemoryFill, 0}, {opPrefixMisc, miscMemoryInit, 0, 0},
		} {
			b.get(0)
			b.get(1)
			b.get(2)
			b.op(code...)
		}
		b.get(0)
		b.op(opMemoryGrow, 0)
	})
	out["bulk"] = golden{bulk.bytes(), fuel}

	// Everything that names a function.
	shift := &assembler{}
	shift.importFunc("env", "a", "", "")
	shift.table(funcref, 4, 4)
	f := shift.fn("", "", "", func(b *buffer) { b.call(0); b.call(1) })
	g := shift.fn("", "", "", func(b *buffer) {
		b.op(opRefFunc)
		b.u32(f)
		b.op(opDrop, opReturnCall)
		b.u32(f)
	})
	shift.export("a", kindFunction, 0)
	shift.export("g", kindFunction, g)
	shift.globals = append(shift.globals, entry(func(b *buffer) { b.op(funcref, 0, opRefFunc); b.u32(g); b.op(opEnd) }))
	shift.elements = append(shift.elements,
		entry(func(b *buffer) { b.op(0); b.i32(0); b.op(opEnd, 2, 0); b.u32(f) }),
		entry(func(b *buffer) { b.op(5, funcref, 2, opRefFunc); b.u32(g); b.op(opEnd, opRefNull, funcref, opEnd) }),
		entry(func(b *buffer) { b.op(3, 0, 1); b.u32(g) }))
	shift.start = 1 + int(f)
	shift.custom = append(shift.custom, entry(func(b *buffer) {
		b.name("name")
		b.op(namesFunctions)
		b.sized(entry(func(b *buffer) {
			b.u32(3)
			for i, n := range []string{"a", "f", "g"} {
				b.u32(uint32(i))
				b.name(n)
			}
		}))
		b.op(namesLocals)
		b.sized([]byte{1, 1, 1, 0, 1, 'x'})
	}))
	out["shift"] = golden{shift.bytes(), fuel}

	trim := &assembler{count: true}
	trim.mem(1, 0)
	trim.table(funcref, 1, 0)
	trim.active(3, []byte("active"))
	trim.passive([]byte("passive"))
	trim.exportFn("init", "", "", "", func(b *buffer) {
		b.i32(0)
		b.i32(0)
		b.i32(0)
		b.op(opPrefixMisc, miscMemoryInit, 0, 0)
	})
	trim.custom = append(trim.custom, entry(func(b *buffer) { b.name(".debug_info"); b.op(1) }), entry(func(b *buffer) { b.name("kept"); b.op(2) }))
	out["trim"] = golden{trim.bytes(), Options{
		DropData: true, MaxMemoryPages: 16, MaxTableElements: 5,
		Exports: []Export{{"f", Function, 0}, {"t", Table, 0}},
	}}

	old := &assembler{}
	old.importFunc(unstableModule, "fd_seek", "ilii", "i")
	old.importFunc(unstableModule, "fd_filestat_get", "ii", "i")
	old.importFunc(unstableModule, "fd_close", "i", "i")
	old.mem(1, 0)
	old.exportFn("close", "i", "i", "", func(b *buffer) { b.get(0); b.call(2) })
	old.export("stat", kindFunction, 1)
	out["unstable"] = golden{old.bytes(), Options{Unstable: true}}
	return out
}

func TestGolden(t *testing.T) {
	for name, g := range goldenModules() {
		t.Run(name, func(t *testing.T) {
			res := rewrite(t, g.module, g.opts)
			file := filepath.Join("testdata", name+".golden")
			got := []byte(dump(t, res.Module))
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs; if that is meant, change Version and run with -update. Got:\n%s", file, got)
			}
			again := rewrite(t, g.module, g.opts)
			if !bytes.Equal(res.Module, again.Module) {
				t.Error("a second rewrite gives another module")
			}
			if _, err := newRuntime(t).CompileModule(t.Context(), res.Module); err != nil {
				t.Errorf("the result is not valid: %v", err)
			}
		})
	}
}
