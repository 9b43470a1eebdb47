package php

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tetratelabs/wazero/api"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

//go:embed lib/*.php
var library embed.FS

// What the pinned build does not export.
const (
	exportShutdown     = "caisson_shutdown"
	exportFlush        = "caisson_flush"
	exportStackPointer = "caisson_stack_pointer"
)

// exports are the additions. The functions are php_request_shutdown and
// php_output_end_all. The build has no names; packs.Table pins the file, and
// TestPHPFatal of package interp notices any other function.
var exports = []meter.Export{
	{Name: exportShutdown, Kind: meter.Function, Index: 4418},
	{Name: exportFlush, Kind: meter.Function, Index: 4562},
	{Name: exportStackPointer, Kind: meter.Global, Index: 0},
}

// Addresses of variables in the pinned build: EG(exit_status), and EG(flags), whose
// lowest bit is set while PHP shuts down.
const (
	exitStatus = 9890028
	flags      = 9890425
)

// stackBytes is the size of the C stack, which calls between functions written in
// C and in PHP use. The build's own is overrun by some hundred of them.
const stackBytes = 16 << 20

// startBytes is what PHP allocates until the program starts, spareBytes what it
// needs beside what it counts as the program's when that reaches its limit.
const (
	startBytes = 8 << 20
	spareBytes = 8 << 20
)

// Interpreter is a compiled PHP. It is safe for concurrent use.
type Interpreter struct {
	module  *codecache.Module
	machine *machine.Machine
	static  int64 // size of the memory of a new instance
}

// New compiles the interpreter, or takes its code from the cache. Compiling takes
// seconds.
func New(ctx context.Context, wasm []byte, host machine.Host) (*Interpreter, error) {
	m, err := guest.Load(ctx, host.Cache, wasm, meter.Options{DropData: true, Exports: exports})
	if err != nil {
		return nil, fmt.Errorf("php: %w", err)
	}
	p := &Interpreter{module: m}
	if err = p.adapt(); err == nil {
		p.machine, err = newMachine(ctx, m, host)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("php: %w", err), m.Close(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// newMachine makes a machine without an image: a program's options come before
// everything that could be in one.
func newMachine(ctx context.Context, m *codecache.Module, host machine.Host) (*machine.Machine, error) {
	lib, err := fs.Sub(library, "lib")
	if err != nil {
		return nil, err
	}
	return machine.New(ctx, machine.Config{
		Host: host, Module: m, Layout: guest.NewLayout(guest.LibraryMount{Path: libraryDir, FS: lib}),
	})
}

// Names of the interface: what the build says, and what programs ask for before
// they print plain text or read standard input.
const (
	nameCGI = "\x00cgi-fcgi\x00"
	nameCLI = "\x00cli\x00"
)

// adapt changes the name in the static data and learns the size of the memory.
func (p *Interpreter) adapt() error {
	mem := p.module.Code.ExportedMemories()["memory"]
	if mem == nil {
		return errors.New("the module has no memory")
	}
	p.static = int64(mem.Min()) * region.PageBytes
	found := 0
	for _, s := range p.module.Data {
		if i := bytes.Index(s.Data, []byte(nameCGI)); i >= 0 {
			copy(s.Data[i:i+len(nameCGI)], nameCLI+strings.Repeat("\x00", len(nameCGI)-len(nameCLI)))
			found++
		}
	}
	if found != 1 {
		return fmt.Errorf("the data of the module has %q %d times", nameCGI, found)
	}
	return nil
}

// Close releases the compiled code. No run may be in progress.
func (p *Interpreter) Close(ctx context.Context) error {
	return errors.Join(p.machine.Close(ctx), p.module.Close(ctx))
}

// CacheErr says why the code cache was not used or filled; nil if it was.
func (p *Interpreter) CacheErr() error { return p.module.CacheErr }

// MinMemoryBytes is the least memory limit a run may have.
func (p *Interpreter) MinMemoryBytes() int64 {
	return p.static + stackBytes + startBytes + spareBytes
}

// Run runs one program; r.Program.Argv is php's command line. An error means that
// nothing ran.
func (p *Interpreter) Run(ctx context.Context, r *guest.Run) (guest.Result, error) {
	argv, env, err := commandLine(r, p.heapLimit(guest.MemoryLimit(r.Program)))
	if err != nil {
		return guest.Result{}, fmt.Errorf("php: %w", err)
	}
	// The build knows no dup: each php://stderr is descriptor 2 itself.
	r.KeepStdio = true
	inst, err := p.machine.Start(r, argv, env)
	if err != nil {
		return guest.Result{}, fmt.Errorf("php: %w", err)
	}
	defer func() { _ = inst.Close(ctx) }()
	callCtx := r.Context(ctx)
	if err := guest.MoveStack(inst, exportStackPointer, stackBytes); err != nil {
		return guest.Result{}, fmt.Errorf("php: %w", err)
	}
	r.Begin()
	_, err = inst.ExportedFunction("_start").Call(callCtx)
	if !bailedOut(err) {
		code, exited := guest.Exit(err)
		return r.Outcome(ctx, exited || err == nil, code, err), nil
	}
	return p.bury(ctx, callCtx, r, inst, err), nil
}

// bury ends a program that died of an error, as main would do next: it is shut down,
// and if it dies of that as well, what it has in buffers is written.
func (p *Interpreter) bury(ctx, callCtx context.Context, r *guest.Run, inst api.Module, death error) guest.Result {
	if res := r.Outcome(ctx, false, 0, death); res.Reason != guest.ReasonExit {
		return res // there is no memory left to do anything
	}
	steps := []string{exportShutdown, exportFlush}
	if b, _ := inst.Memory().ReadByte(flags); b&1 != 0 {
		steps = steps[1:]
	} else if code, _ := inst.Memory().ReadUint32Le(exitStatus); code == 0 {
		return r.Outcome(ctx, false, 0, death) // of something else
	}
	var err error
	for _, f := range steps {
		if _, err = inst.ExportedFunction(f).Call(callCtx); !bailedOut(err) {
			break
		}
	}
	if err != nil && !bailedOut(err) {
		code, exited := guest.Exit(err)
		return r.Outcome(ctx, exited, code, err)
	}
	code, _ := inst.Memory().ReadUint32Le(exitStatus)
	return r.Outcome(ctx, true, code, nil)
}

// bailedOut reports whether the guest stopped where PHP leaves a program that
// cannot go on: the build, which has no long jumps, stops there.
func bailedOut(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "wasm error: unreachable")
}

// heapLimit is what a program may allocate when the memory is limited to n bytes.
// PHP takes memory in pieces of 2 MiB that are aligned to as much, and the C library
// leaves a gap of nearly that size between any two.
func (p *Interpreter) heapLimit(n int64) int64 {
	const piece = 2 << 20
	return max(piece, (n-p.MinMemoryBytes()+startBytes)/(2*piece)*piece)
}
