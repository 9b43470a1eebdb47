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
	"embed"
	"fmt"
	"io/fs"
	"maps"

	"github.com/tetratelabs/wazero"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
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
	module    *codecache.Module
	library   fs.FS
	minMemory int64

	snapshot    *snapshot // nil when the boot failed
	snapshotErr error
}

// New compiles the interpreter, or takes its code from the cache in cacheDir.
// Compiling takes seconds.
func New(ctx context.Context, wasm []byte, cacheDir string) (*Interpreter, error) {
	library, err := fs.Sub(libraryFiles, "lib")
	if err != nil {
		return nil, fmt.Errorf("cpython: %w", err)
	}
	m, err := guest.Load(ctx, cacheDir, wasm, meter.Options{DropData: true, Exports: exports})
	if err != nil {
		return nil, fmt.Errorf("cpython: %w", err)
	}
	p := &Interpreter{module: m, library: library}
	if p.minMemory, err = startMemory(m); err != nil {
		_ = m.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("cpython: %w", err)
	}
	if p.snapshot, err = p.boot(ctx); err != nil {
		p.snapshotErr = fmt.Errorf("cpython: boot: %w", err)
	} else {
		p.minMemory = max(p.minMemory, p.snapshot.image.Bytes()+startBytes)
	}
	return p, nil
}

// SnapshotErr says why runs do not start from a snapshot; nil if they do.
func (p *Interpreter) SnapshotErr() error { return p.snapshotErr }

// config is that of every instance: an image can only be restored where the
// directories are the same and in the same order as at the boot.
func (p *Interpreter) config(r *guest.Run, argv []string) wazero.ModuleConfig {
	return r.ModuleConfig(argv, environment(r.Env), guest.LibraryMount{Path: libraryDir, FS: p.library})
}

// Close releases the compiled code. No run may be in progress.
func (p *Interpreter) Close(ctx context.Context) error { return p.module.Close(ctx) }

// CacheErr says why the code cache was not used or filled; nil if it was.
func (p *Interpreter) CacheErr() error { return p.module.CacheErr }

// MinMemoryBytes is the least memory limit a run may have.
func (p *Interpreter) MinMemoryBytes() int64 { return p.minMemory }

// Run runs one program; r.Program.Argv is python's command line, options
// included. An error means that nothing ran.
func (p *Interpreter) Run(ctx context.Context, r *guest.Run) (guest.Result, error) {
	if p.snapshot.fits(r) {
		return p.runSnapshot(ctx, r)
	}
	callCtx := r.Context(ctx)
	inst, err := p.module.Runtime.InstantiateModule(callCtx, p.module.Code, p.config(r, r.Program.Argv))
	if err != nil {
		return guest.Result{}, fmt.Errorf("cpython: instantiate: %w", err)
	}
	defer func() { _ = inst.Close(context.WithoutCancel(ctx)) }()
	if err := p.prepare(inst); err != nil {
		return guest.Result{}, fmt.Errorf("cpython: %w", err)
	}
	r.Begin()
	_, err = inst.ExportedFunction("_start").Call(callCtx)
	code, exited := guest.Exit(err)
	return r.Outcome(ctx, exited || err == nil, code, err), nil
}

// environment adds what makes CPython load the library and speak UTF-8. The
// program sees its own values again: sitecustomize puts them back.
func environment(env map[string]string) map[string]string {
	out := maps.Clone(env)
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
