package meter

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
)

// TestDropData takes the segments out, writes them by hand, and compares with a
// module that has them.
func TestDropData(t *testing.T) {
	for _, named := range []bool{false, true} { // whether code names segments
		a := &assembler{count: true}
		a.mem(1, 0)
		a.globals = append(a.globals, entry(func(b *buffer) { b.op(i32Type, 0); b.i32(40); b.op(opEnd) }))
		a.active(10, []byte("one"))
		a.active(-1<<16+11, nil)
		a.passive([]byte("passive"))
		a.data = append(a.data, entry(func(b *buffer) { // 2*global-3
			b.op(2, 0)
			b.i32(2)
			b.op(opGlobalGet, 0, opI32Mul)
			b.i32(3)
			b.op(opI32Sub, opEnd)
			b.sized([]byte("two"))
		}))
		if named {
			a.exportFn("init", "ii", "", "", func(b *buffer) {
				b.get(0)
				b.i32(0)
				b.get(1)
				b.op(opPrefixMisc, miscMemoryInit, 2, 0)
			})
			a.exportFn("gone", "i", "", "", func(b *buffer) {
				b.i32(0)
				b.i32(0)
				b.get(0)
				b.op(opPrefixMisc, miscMemoryInit, 3, 0, opPrefixMisc, miscDataDrop, 0)
			})
		}
		module := a.bytes()
		res := rewrite(t, module, Options{DropData: true, Fuel: &Fuel{}})
		if len(res.Data) != 3 || res.Data[2].Offset != 77 || string(res.Data[2].Data) != "two" {
			t.Fatalf("dropped %+v", res.Data)
		}
		want := instantiate(t, newRuntime(t), plainData(a))
		r := newRuntime(t)
		refillFrom(t, r, 1000)
		got := instantiate(t, r, res.Module)
		for _, s := range res.Data {
			if len(s.Data) > 0 && !got.Memory().Write(s.Offset, s.Data) {
				t.Fatalf("segment at %d does not fit", s.Offset)
			}
		}
		if named {
			for _, args := range [][]uint64{{5, 7}, {5, 8}} {
				_, w := call(want, "init", args...)
				_, g := call(got, "init", args...)
				if w != g {
					t.Errorf("init%v: %q, rewritten %q", args, w, g)
				}
			}
			// An active segment is gone once the module is there, says the
			// specification; wazero keeps it, so there is nothing to compare.
			for n, want := range []string{"", "out of bounds memory access"} {
				if _, g := call(got, "gone", uint64(n)); g != want {
					t.Errorf("gone(%d): %q", n, g)
				}
			}
		}
		x, _ := want.Memory().Read(0, 1<<16)
		y, _ := got.Memory().Read(0, 1<<16)
		if !bytes.Equal(x, y) {
			t.Errorf("named %v: memory differs", named)
		}
	}
}

// plainData writes two of the segments so that wazero takes them: the empty one
// within bounds, and the last with its offset worked out.
func plainData(a *assembler) []byte {
	a.data[1] = entry(func(b *buffer) { b.op(0); b.i32(0); b.op(opEnd, 0) })
	a.data[3] = entry(func(b *buffer) { b.op(0); b.i32(77); b.op(opEnd); b.sized([]byte("two")) })
	return a.bytes()
}

func TestAddedExports(t *testing.T) {
	a := &assembler{}
	a.importFunc("env", "host", "", "i")
	a.mem(1, 0)
	a.table(funcref, 3, 0)
	a.globals = append(a.globals, entry(func(b *buffer) { b.op(i32Type, 1); b.i32(77); b.op(opEnd) }))
	f := a.fn("", "i", "", func(b *buffer) { b.i32(42) })
	a.export("old", kindFunction, f)
	res := rewrite(t, a.bytes(), Options{Fuel: &Fuel{}, Exports: []Export{
		{"f", Function, f}, {"host", Function, 0}, {"sp", Global, 0}, {"t", Table, 0}, {"m", Memory, 0},
	}})
	r := newRuntime(t)
	refillFrom(t, r, 1000)
	if _, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() uint32 { return 9 }).Export("host").Instantiate(context.Background()); err != nil {
		t.Fatal(err)
	}
	m := instantiate(t, r, res.Module)
	for name, want := range map[string]uint64{"f": 42, "old": 42, "host": 9} {
		if out, trapped := call(m, name); trapped != "" || out[0] != want {
			t.Errorf("%s: %v %s", name, out, trapped)
		}
	}
	if v := m.ExportedGlobal("sp").Get(); v != 77 {
		t.Errorf("global %d", v)
	}
	if m.ExportedMemory("m") == nil {
		t.Error("memory is not exported")
	}

	for _, c := range []struct {
		add  []Export
		want string
	}{
		{[]Export{{"old", Function, f}}, `already exports "old"`},
		{[]Export{{"x", Function, f}, {"x", Global, 0}}, "added twice"},
		{[]Export{{"x", Function, f + 1}}, "function 2, and the module has 2"},
		{[]Export{{"x", Global, 1}}, "global 1, and the module has 1"}, // the counter
		{[]Export{{"x", 9, 0}}, "kind 0x9"},
		{[]Export{{CounterExport, Global, 0}}, "reserved name"},
	} {
		_, err := Rewrite(a.bytes(), Options{Fuel: &Fuel{}, Exports: c.add})
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("adding %v: %v", c.add, err)
		}
	}
}

func TestCaps(t *testing.T) {
	for _, c := range []struct {
		least, most, pages uint32
		want               string
	}{
		{1, 0, 10, "memory 0: {1 10 true}"},
		{1, 20, 10, "memory 0: {1 10 true}"},
		{1, 5, 10, "memory 0: {1 5 true}"},
		{1, 0, 0, "memory 0: {1 0 false}"},
		{10, 0, 10, "memory 0: {10 10 true}"},
		{11, 0, 10, "pages of memory: 11 at the start are more than 10"},
	} {
		a := &assembler{}
		a.mem(c.least, c.most)
		res, err := Rewrite(a.bytes(), Options{MaxMemoryPages: c.pages})
		got := ""
		if err != nil {
			if got = err.Error(); !errors.Is(err, ErrLimit) {
				t.Error(err)
			}
		} else {
			got = dump(t, res.Module)
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c, got)
		}
	}
}

func TestCustomSections(t *testing.T) {
	a := &assembler{}
	for _, n := range []string{"producers", "name", ".debug_line", "name2", "sourceMappingURL"} {
		a.custom = append(a.custom, entry(func(b *buffer) { b.name(n) }))
	}
	for choice, want := range map[Custom]string{KeepCustom: "producers name name2", KeepNames: "name", DropCustom: ""} {
		m, err := parse(rewrite(t, a.bytes(), Options{Custom: choice}).Module, Limits{}.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range m.custom {
			got = append(got, c.name)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("choice %d keeps %q, not %q", choice, s, want)
		}
	}
}

// TestNames has a trap name functions by their own names, though their indices
// have moved.
func TestNames(t *testing.T) {
	a := &assembler{}
	a.importFunc("env", "host", "", "")
	a.exportFn("run", "", "", "", func(b *buffer) { b.call(2) })
	a.fn("", "", "", func(b *buffer) { b.op(opUnreachable) })
	names := func(functions ...string) buffer {
		return entry(func(b *buffer) {
			b.name("name")
			b.op(namesFunctions)
			b.sized(entry(func(b *buffer) {
				b.u32(uint32(len(functions)))
				for i, n := range functions {
					b.u32(uint32(i))
					b.name(n)
				}
			}))
		})
	}
	a.custom = []buffer{names("host", "outer", "inner")}
	r := newRuntime(t)
	refillFrom(t, r, 1)
	if _, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() {}).Export("host").Instantiate(context.Background()); err != nil {
		t.Fatal(err)
	}
	m := instantiate(t, r, rewrite(t, a.bytes(), Options{Fuel: &Fuel{}}).Module)
	_, err := m.ExportedFunction("run").Call(context.Background())
	if err == nil || !strings.Contains(err.Error(), "inner") || !strings.Contains(err.Error(), "outer") {
		t.Errorf("the trace names others: %v", err)
	}
	// A name for a function that is not there: the section is dropped.
	a.custom = []buffer{names("host", "outer", "inner", "more")}
	if out := dump(t, rewrite(t, a.bytes(), Options{Fuel: &Fuel{}}).Module); strings.Contains(out, "custom") {
		t.Errorf("kept: %s", out)
	}
}

func TestReserved(t *testing.T) {
	module := func(importFrom, export string) []byte {
		a := &assembler{}
		a.importFunc(importFrom, "x", "", "")
		a.export(export, kindFunction, 0)
		return a.bytes()
	}
	for _, c := range []struct{ importFrom, export string }{
		{"env", CounterExport}, {"env", ReservedPrefix + "x"}, {SliceModule, "y"}, {ReservedPrefix + ".z", "y"},
	} {
		for _, opts := range []Options{{}, {Fuel: &Fuel{}}} {
			if _, err := Rewrite(module(c.importFrom, c.export), opts); !errors.Is(err, ErrReserved) {
				t.Errorf("%v: %v", c, err)
			}
		}
	}
}

func TestOwnMustFit(t *testing.T) {
	a := &assembler{}
	a.importFunc("env", "f", "i", "")
	a.importFunc("env", "float", "d", "")
	for _, own := range []Own{{Module: "env", Name: "g"}, {Module: "env", Name: "float"}, {Module: "env", Name: "f", Args: []int64{1, 2}}} {
		if _, err := Rewrite(a.bytes(), Options{Fuel: &Fuel{Own: &own}}); !errors.Is(err, ErrOptions) {
			t.Errorf("%v: %v", own, err)
		}
	}
	if _, err := Rewrite(a.bytes(), Options{Fuel: &Fuel{Seed: -1}}); !errors.Is(err, ErrOptions) {
		t.Errorf("a negative seed: %v", err)
	}
}

func TestKey(t *testing.T) {
	seen := map[string]Options{}
	for _, o := range []Options{
		{},
		{DropData: true},
		{Fuel: &Fuel{}},
		{Fuel: &Fuel{Seed: 5}},
		{Fuel: &Fuel{Own: &Own{Module: "a", Name: "b"}}},
		{Fuel: &Fuel{Own: &Own{Module: "a", Name: "b", Args: []int64{1}}}},
		{Exports: []Export{{"a", Function, 1}}},
		{Exports: []Export{{"a", Function, 2}}},
		{Custom: DropCustom},
		{MaxMemoryPages: 1},
		{MaxTableElements: 1},
		{Unstable: true},
		{Limits: Limits{Locals: 7}},
	} {
		k := o.Key()
		if other, ok := seen[k]; ok {
			t.Errorf("%+v and %+v have the same key", o, other)
		}
		seen[k] = o
		if k != o.Key() || !strings.HasPrefix(k, Version) || strings.ContainsAny(k, `/\ `) {
			t.Errorf("key %q", k)
		}
	}
	explicit := Options{Limits: Limits{}.withDefaults()}
	if explicit.Key() != (Options{}).Key() {
		t.Error("defaults change the key")
	}
}

// TestNothingChanges rewrites with no options: the module works as before.
func TestNothingChanges(t *testing.T) {
	res := rewrite(t, bulkModule(), Options{})
	if res.Report.Charges+res.Report.BulkOps+res.Report.Helpers != 0 {
		t.Errorf("%+v", res.Report)
	}
	if _, err := wazero.NewRuntime(t.Context()).CompileModule(t.Context(), res.Module); err != nil {
		t.Error(err)
	}
}
