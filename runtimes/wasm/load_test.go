package wasm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
	"github.com/caisson-run/caisson/sdk/guest/abi"
)

func TestLoadRefusesSpecs(t *testing.T) {
	good := newGuest(nil).build()
	for name, tc := range map[string]struct {
		spec Spec
		want string
	}{
		"no name":         {Spec{Module: good}, "name: is required"},
		"no module":       {Spec{Name: "x"}, "module: is empty"},
		"huge module":     {Spec{Name: "x", Module: make([]byte, maxModuleBytes+1)}, "module: 67108865 bytes are more than 67108864"},
		"other abi":       {Spec{Name: "x", Module: good, ABI: "v2"}, `abi: "v2" is not supported, want "v1" or "opa"`},
		"unknown import":  {Spec{Name: "x", Module: good, Imports: []string{"kv_get"}}, `imports: "kv_get" is not a function of host_v1`},
		"negative memory": {Spec{Name: "x", Module: good, Limits: Limits{MemoryBytes: -1}}, "limits.memory_bytes: -1 is not between"},
		"little memory":   {Spec{Name: "x", Module: good, Limits: Limits{MemoryBytes: 1}}, "limits.memory_bytes: 1 is less than one page"},
		"too much memory": {Spec{Name: "x", Module: good, Limits: Limits{MemoryBytes: 1 << 33}}, "limits.memory_bytes"},
		"negative time":   {Spec{Name: "x", Module: good, Limits: Limits{Timeout: -1}}, "limits.timeout"},
		"instances":       {Spec{Name: "x", Module: good, Limits: Limits{Instances: 5000}}, "limits.instances: 5000"},
		"long output":     {Spec{Name: "x", Module: good, Limits: Limits{OutputBytes: 1 << 31}}, "limits.output_bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Load(context.Background(), tc.spec)
			if err == nil {
				mustClose(t, m)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), `wasm module "`) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if errors.Is(err, ErrRefused) {
				t.Error("a wrong spec is reported as a refused module")
			}
		})
	}
}

// TestLoadRefusesModules has one module per rule; none of their code may run, so
// each traps where it could start.
func TestLoadRefusesModules(t *testing.T) {
	trap := func(g *guestAsm) *guestAsm {
		g.start = int(g.fn(nil, nil, code(opUnreachable))) + 1
		return g
	}
	with := func(change func(*guestAsm)) []byte {
		g := newGuest(nil)
		change(g)
		return trap(g).build()
	}
	imports := func(module, field string, params, results []byte) []byte {
		return with(func(g *guestAsm) { g.importFunc(module, field, params, results) })
	}
	rawImport := func(kind ...byte) []byte {
		return with(func(g *guestAsm) { g.imports = append(g.imports, append(code(name("env"), name("thing")), kind...)) })
	}
	good := newGuest(nil).build()
	for name, tc := range map[string]struct {
		module []byte
		spec   Spec
		want   string
	}{
		"not wasm":        {[]byte("#!/bin/sh\nexit 0\n"), Spec{}, "not a WebAssembly core module"},
		"component":       {[]byte("\x00asm\x0d\x00\x01\x00"), Spec{}, "not a WebAssembly core module"},
		"truncated":       {good[:len(good)-3], Spec{}, "truncated"},
		"bad code":        {with(func(g *guestAsm) { g.body = code(opDrop) }), Spec{}, "invalid function"},
		"env import":      {imports("env", "abort", i32x3, nil), Spec{}, "module imports env.abort which its manifest does not grant and this host does not offer"},
		"log not granted": {imports("host_v1", "log", i32x3, nil), Spec{Imports: []string{"now_ms"}}, "module imports host_v1.log which its manifest does not grant"},
		"unknown import":  {imports("host_v1", "kv_get", nil, nil), Spec{Imports: []string{"log"}}, "module imports host_v1.kv_get which its manifest does not grant"},
		"wasi not asked":  {imports("wasi_snapshot_preview1", "fd_write", nil, nil), Spec{}, "module imports wasi_snapshot_preview1.fd_write which its manifest does not grant (wasi: true)"},
		"wasi unknown":    {imports("wasi_snapshot_preview1", "fd_magic", nil, nil), Spec{WASI: true}, "module imports wasi_snapshot_preview1.fd_magic, which this host does not offer"},
		"log signature":   {imports("host_v1", "log", []byte{tI32}, nil), Spec{Imports: []string{"log"}}, "module imports host_v1.log as (i32), it is (i32, i32, i32)"},
		"other modules":   {imports("other-plugin", "handle", nil, nil), Spec{WASI: true, Imports: hostFunctions}, "module imports other-plugin.handle"},
		"global import":   {rawImport(3, tI32, 0), Spec{}, "module imports env.thing, which is not a function"},
		"memory import":   {rawImport(2, 0, 1), Spec{}, "module imports env.thing, which is not a function"},
		"table import":    {rawImport(1, 0x70, 0, 1), Spec{}, "module imports env.thing, which is not a function"},
		"no memory":       {with(func(g *guestAsm) { g.without = "memory" }), Spec{}, "module does not export its memory"},
		"no version":      {with(func(g *guestAsm) { g.without = "abi_version" }), Spec{}, "module does not export abi_version() -> i32"},
		"no alloc":        {with(func(g *guestAsm) { g.without = "alloc" }), Spec{}, "module does not export alloc(i32) -> i32"},
		"no handle":       {with(func(g *guestAsm) { g.without = "handle" }), Spec{}, "module does not export handle(i32, i32, i32) -> i64"},
		"handle signature": {with(func(g *guestAsm) {
			g.without = "handle"
			g.export("handle", g.fn([]byte{tI32}, nil, nil))
		}), Spec{}, "module exports handle(i32), want handle(i32, i32, i32) -> i64"},
		"initialize signature": {with(func(g *guestAsm) {
			g.export("_initialize", g.fn([]byte{tI32}, nil, nil))
		}), Spec{}, "module exports _initialize(i32), want _initialize()"},
		"command":       {with(func(g *guestAsm) { g.export("_start", g.fn(nil, nil, nil)) }), Spec{}, "module is a command"},
		"much memory":   {with(func(g *guestAsm) { g.pages = 17 }), Spec{Limits: Limits{MemoryBytes: 1 << 20}}, "module needs 1114112 bytes of memory to start, its limit is 1048576"},
		"all memory":    {with(func(g *guestAsm) { g.pages = big }), Spec{}, "module needs 4294967296 bytes"},
		"huge table":    {with(func(g *guestAsm) { g.tables = [][]byte{code(0x70, 0, uleb(1<<27))} }), Spec{}, "table of 134217728 elements"},
		"many tables":   {with(func(g *guestAsm) { g.tables = make([][]byte, 9) }), Spec{}, "9 tables are more than 8"},
		"shared memory": {with(func(g *guestAsm) { g.without = "memory"; g.memory = code(3, 1, 1) }), Spec{}, "limits of kind 3"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := tc.spec
			spec.Name, spec.Module = "bad", tc.module
			m, err := Load(context.Background(), spec)
			if err == nil {
				mustClose(t, m)
			}
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if _, checked := Check(t.Context(), spec); checked == nil || checked.Error() != err.Error() || !errors.Is(checked, ErrRefused) {
				t.Errorf("Check says %v, Load %v", checked, err)
			}
		})
	}
}

// Check runs nothing, not even what an instance runs to start.
func TestCheckRunsNothing(t *testing.T) {
	g := newGuest(nil)
	g.start = int(g.fn(nil, nil, code(opUnreachable))) + 1
	spec := Spec{Name: "x", Module: g.build()}
	info, err := Check(t.Context(), spec)
	if err != nil || info.Name != "x" || info.Stop != StopFuel || info.ABI != "" || len(info.Digest) != 64 {
		t.Errorf("got %+v, %v", info, err)
	}
	if m, err := Load(t.Context(), spec); err == nil {
		mustClose(t, m)
		t.Error("the module starts, so the test shows nothing")
	}
}

func TestLoadRefusesOtherVersions(t *testing.T) {
	g := newGuest(nil)
	g.version = 2 << 16
	_, err := Load(context.Background(), Spec{Name: "new", Module: g.build()})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "module speaks version 2.0 of the ABI, this host speaks 1.0") {
		t.Errorf("got %v", err)
	}
	g = newGuest(nil)
	g.version = 1<<16 | 9
	m := mustLoad(t, Spec{Name: "minor", Module: g.build()}, fuelStop{})
	if got := m.Info().ABI; got != "1.9" {
		t.Errorf("abi %s", got)
	}
}

// TestLoadBoundsTheStart has code that runs before the first call.
func TestLoadBoundsTheStart(t *testing.T) {
	at := func(where string, body []byte) []byte {
		g := newGuest(nil)
		switch where {
		case "start":
			g.start = int(g.fn(nil, nil, body)) + 1
		case "_initialize":
			g.export("_initialize", g.fn(nil, nil, body))
		case "abi_version":
			g.without = "abi_version"
			g.export("abi_version", g.fn(nil, []byte{tI32}, code(body, i32Const(1<<16))))
		case "configure":
			g.body = whenOp(OpConfigure, body)
		}
		return g.build()
	}
	for _, where := range []string{"start", "_initialize", "abi_version", "configure"} {
		for _, tc := range []struct {
			name   string
			body   []byte
			reason Reason
		}{
			{"loop", forever(), ReasonTimeout},
			{"trap", code(opUnreachable), ReasonTrap},
		} {
			t.Run(where+" "+tc.name, func(t *testing.T) {
				spec := Spec{Name: "slow", Module: at(where, tc.body), Config: []byte(`{"a":1}`), Limits: Limits{StartTimeout: 50 * time.Millisecond}}
				_, err := Load(context.Background(), spec)
				var call *CallError
				if !errors.As(err, &call) || !errors.Is(err, tc.reason) || call.Op != 0 || call.Module != "slow" {
					t.Errorf("got %v, want %v", err, tc.reason)
				}
			})
		}
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	g := newGuest(nil)
	g.start = int(g.fn(nil, nil, forever())) + 1
	ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, errors.New("the operator left"))
	defer cancel()
	_, err := Load(ctx, Spec{Name: "slow", Module: g.build()})
	if err == nil || err.Error() != `wasm module "slow": the operator left` {
		t.Errorf("got %v", err)
	}
}

func TestInitializeRunsAndStartDoesNot(t *testing.T) {
	g := newGuest(code(whenOp(1, code(i32Const(0), code(0x2d, 0, 0), opI64ExtendU, opReturn))))
	// _initialize stores 1 at address 0; handle(1) returns it as an empty reply of
	// pointer 0 and length 1, so the reply is that byte.
	g.export("_initialize", g.fn(nil, nil, code(i32Const(0), i32Const(1), 0x3a, 0, 0)))
	g.export("_start", g.fn(nil, nil, code(opUnreachable)))
	m := mustLoad(t, Spec{Name: "reactor", Module: g.build()}, fuelStop{})
	if got := mustCall(t, m, OpDescribe, ""); got != "\x01" {
		t.Errorf("got %q", got)
	}
}

func TestConfigure(t *testing.T) {
	refuse := func(text string) []byte {
		g := newGuest(whenOp(OpConfigure, code(packed(dataAt, uint32(len(text)), true), opReturn)))
		g.data = []byte(text)
		return g.build()
	}
	unsupported := string((&abi.Error{Code: abi.CodeUnsupportedOp, Message: "no"}).AppendJSON(nil))
	bad := string((&abi.Error{Code: abi.CodeBadConfig, Message: "max_files: is negative"}).AppendJSON(nil))
	for _, tc := range []struct{ name, config, reply, want string }{
		{"refused", `{"max_files":-1}`, bad, `wasm module "p": configure: guest: bad_config: max_files: is negative`},
		{"not taken", `{"a":1}`, unsupported, `wasm module "p": configure: guest: unsupported_op: no`},
		{"empty and not taken", ` {} `, unsupported, ""},
		{"none", "", bad, ""},
		{"unreadable", `{"a":1}`, `{"code":`, `wasm module "p": configure: bad_output: error object`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := Spec{Name: "p", Module: refuse(tc.reply)}
			if tc.config != "" {
				spec.Config = []byte(tc.config)
			}
			m, err := Load(context.Background(), spec)
			if err == nil {
				mustClose(t, m)
			}
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)):
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestInfo(t *testing.T) {
	m := mustLoad(t, Spec{Name: "as", Module: asGuest(t), Imports: []string{"log", "rand"}}, fuelStop{})
	got := m.Info()
	if got.Name != "as" || got.ABI != "1.0" || len(got.Digest) != 64 || got.Stop != StopFuel || got.Limits.MemoryBytes != defaultMemory {
		t.Errorf("got %+v", got)
	}
	// Granted and not imported is not an import.
	if len(got.Imports) != 1 || got.Imports[0] != "host_v1.log" {
		t.Errorf("imports %q", got.Imports)
	}
}

// FuzzHarden checks that what harden lets pass means the same to wazero.
func FuzzHarden(f *testing.F) {
	g := newGuest(forever())
	g.tables = [][]byte{code(0x70, 0, 5), code(0x6f, 1, 1, 9)}
	f.Add(g.build())
	g = newGuest(nil)
	g.importFunc("host_v1", "log", i32x3, nil)
	f.Add(g.build())
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, module []byte) {
		out, h, err := harden(module)
		if err != nil {
			return
		}
		again, h2, err := harden(out)
		if err != nil || string(again) != string(out) {
			t.Fatalf("hardening twice is not hardening once: %v", err)
		}
		if len(h.imports) != len(h2.imports) || h.memoryBytes != h2.memoryBytes {
			t.Fatalf("read %+v, then %+v", h, h2)
		}
		if h.memoryBytes > 1<<20 || len(module) > 4<<10 {
			return
		}
		if _, err := meter.Rewrite(module, meter.Options{}); err != nil {
			return // wazero makes room for what a module announces, before it looks for it
		}
		before, after := validate(t, module), validate(t, out)
		if (before == nil) != (after == nil) {
			t.Fatalf("wazero says %v of the module and %v of the hardened one", before, after)
		}
	})
}

func validate(t *testing.T, module []byte) error {
	rt := wazero.NewRuntimeWithConfig(context.Background(), wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	defer func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	_, err := rt.CompileModule(context.Background(), module)
	return err
}
