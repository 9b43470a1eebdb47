// Package cpython runs Python programs in the WebAssembly build of CPython.
//
// Each run is a new instance, started like the native command line, so that
// arguments, tracebacks, exit codes and shutdown are CPython's own. What the
// platform lacks is adapted by lib/sitecustomize.py, which CPython imports
// before the program.
//
// Scripts start from a snapshot of an interpreter that was booted once, in which
// what a run needs is loaded. Other command lines, and scripts whose environment
// changes how the interpreter starts, boot one of their own, which takes some
// 100 ms.
package cpython

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing/fstest"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

//go:embed lib/sitecustomize.py lib/_caisson_runner.py
var libraryFiles embed.FS

// libraryDir is where the guest finds the library.
const libraryDir = "/usr/lib/caisson"

// startBytes is what the interpreter allocates until the program starts.
const startBytes = 4 << 20

// Interpreter is a compiled CPython. It is safe for concurrent use.
type Interpreter struct {
	build     Build
	tools     []Tool
	module    *codecache.Module
	machine   *machine.Machine
	minMemory int64

	entry       entry // of the snapshot
	snapshotErr error // why there is none
}

// New compiles the interpreter and boots it, or takes code and snapshot from the
// cache. Compiling takes seconds. The library of b must be readable until Close has
// returned. tools are commands that it runs besides python3.
func New(ctx context.Context, b Build, host machine.Host, tools ...Tool) (*Interpreter, error) {
	m, err := guest.Load(ctx, host.Cache, b.wasm, meter.Options{DropData: true, Exports: b.added})
	if err != nil {
		return nil, fmt.Errorf("cpython: %w", err)
	}
	p := &Interpreter{build: b, tools: tools, module: m}
	if err = b.check(m); err == nil {
		p.minMemory = b.startMemory(m)
		err = p.start(ctx, host)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cpython: %w", err), m.Close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// start makes the machine: with a snapshot, or without one if the boot fails.
func (p *Interpreter) start(ctx context.Context, host machine.Host) error {
	own, err := library(p.tools)
	if err != nil {
		return err
	}
	mounts := []guest.LibraryMount{{Path: libraryDir, FS: own}}
	if p.build.library != nil {
		mounts = append(mounts, guest.LibraryMount{Path: p.build.libraryDir, FS: p.build.library})
	}
	cfg := machine.Config{
		Host: host, Module: p.module, Layout: guest.NewLayout(mounts...),
		Boot: p.boot, Argv: []string{"python3", "-c", bootCommand(p.tools)}, Env: environment(guest.DefaultEnv()),
		Globals: []string{p.build.stackPointer}, Identity: identity(own, p.build.identity),
	}
	p.machine, err = machine.New(ctx, cfg)
	if err != nil && ctx.Err() == nil {
		p.snapshotErr = fmt.Errorf("cpython: boot: %w", err)
		cfg.Boot = nil
		p.machine, err = machine.New(ctx, cfg)
		return err
	}
	if err != nil {
		return err
	}
	p.minMemory = max(p.minMemory, p.machine.ImageBytes()+startBytes)
	return json.Unmarshal(p.machine.State(), &p.entry)
}

// identity is what the snapshot depends on besides the module and the command line.
func identity(library fstest.MapFS, build []byte) []byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(library)) {
		b := library[name].Data
		fmt.Fprintf(h, "%s %d\n%s", name, len(b), b)
	}
	h.Write(build)
	return h.Sum(nil)
}

// SnapshotErr says why runs do not start from a snapshot; nil if they do.
func (p *Interpreter) SnapshotErr() error { return p.snapshotErr }

// Machine is what makes the instances.
func (p *Interpreter) Machine() *machine.Machine { return p.machine }

// Close releases the compiled code. No run may be in progress.
func (p *Interpreter) Close(ctx context.Context) error {
	return errors.Join(p.machine.Close(ctx), p.module.Close(ctx))
}

// CacheErr says why code or snapshot were not kept on disk; nil if they were.
func (p *Interpreter) CacheErr() error { return errors.Join(p.module.CacheErr, p.machine.CacheErr()) }

// MinMemoryBytes is the least memory limit a run may have.
func (p *Interpreter) MinMemoryBytes() int64 { return p.minMemory }

// Run runs one program; r.Program.Argv is python's command line, options
// included. An error means that nothing ran.
func (p *Interpreter) Run(ctx context.Context, r *guest.Run) (guest.Result, error) {
	if source, ok := p.fits(r); ok {
		return p.runSnapshot(ctx, r, source)
	}
	inst, err := p.machine.Start(r, p.commandLine(r.Program.Argv), environment(r.Env))
	if err != nil {
		return guest.Result{}, fmt.Errorf("cpython: %w", err)
	}
	defer func() { _ = inst.Close(ctx) }()
	if err := p.build.moveStack(inst); err != nil {
		return guest.Result{}, fmt.Errorf("cpython: %w", err)
	}
	r.Begin()
	_, err = inst.ExportedFunction("_start").Call(r.Context(ctx))
	code, exited := guest.Exit(err)
	return r.Outcome(ctx, exited || err == nil, code, err), nil
}

// environment adds what makes CPython load the library and speak UTF-8. The
// program sees its own values again: sitecustomize puts them back.
func environment(env map[string]string) map[string]string {
	out := make(map[string]string, len(env)+2)
	maps.Copy(out, env)
	path := libraryDir + ":" + guest.DataDir
	for _, name := range []string{"PYTHONPATH", "PYTHONUTF8"} {
		if v, ok := env[name]; ok {
			out["CAISSON_"+name] = v
		}
	}
	if own := env["PYTHONPATH"]; own != "" {
		path += ":" + own
	}
	out["PYTHONPATH"], out["PYTHONUTF8"] = path, "1"
	return out
}
