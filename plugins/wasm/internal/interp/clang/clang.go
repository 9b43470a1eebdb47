// Package clang runs programs in C and C++.
//
// It is a small driver, named like the real one, around clang and wasm-ld, which
// were themselves compiled to WebAssembly: each compiles in a fresh, metered
// instance that sees its headers and libraries from memory, the caller's files
// read-only, and nothing else. What they make is a WebAssembly program of the
// caller's, which is metered, compiled and run like anything that may be hostile:
// with bounds on its size, in a runtime of its own that is closed afterwards.
//
// The toolchain is loaded when a command first needs it and dropped when nobody has
// for a while: compiled, it takes some 400 MB. Compiling it takes half a minute of
// processor time, once for each cache directory. To run a program needs none of it.
package clang

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// Names of the commands.
const (
	CommandC   = "clang"
	CommandCPP = "clang++"
)

// Files of the toolchain.
const (
	FileClang   = "clang.wasm"
	FileLinker  = "wasm-ld.wasm"
	FileSysroot = "clang-fs.tar.gz"
)

// IsProgram reports whether a command is the path of a program, to be run by
// [Toolchain.Run], rather than a name.
func IsProgram(name string) bool {
	return strings.HasPrefix(name, guest.EntryDir+"/") || strings.HasPrefix(name, guest.DataDir+"/")
}

// Config is what a Toolchain is made of.
type Config struct {
	// Read returns a file of the toolchain, verified, by the names above.
	Read func(name string) ([]byte, error)
	// Cache keeps compiled code and precompiled headers.
	Cache codecache.Cache
}

// Toolchain compiles and runs programs. It is safe for concurrent use.
type Toolchain struct {
	cfg   Config
	tools loader
}

// New returns a toolchain. It loads nothing yet; see Prepare.
func New(cfg Config) *Toolchain {
	t := &Toolchain{cfg: cfg}
	t.tools.init(cfg)
	return t
}

// Close releases what is loaded. No run may be in progress.
func (t *Toolchain) Close(ctx context.Context) error { return t.tools.close(ctx) }

// CacheErr says why compiled code or precompiled headers could not be kept; nil if
// they were, or nothing was loaded yet.
func (t *Toolchain) CacheErr() error { return t.tools.cacheErr() }

// MinMemoryBytes is the least memory limit of a run. Programs declare what they
// need; the tools have a limit of their own.
func (t *Toolchain) MinMemoryBytes() int64 { return 0 }

// Prepare loads what a command needs and waits for that as long as ctx allows;
// loading goes on after it ended. To run a program needs nothing.
func (t *Toolchain) Prepare(ctx context.Context, name string) error {
	if IsProgram(name) {
		return nil
	}
	_, release, err := t.tools.acquire(ctx)
	if err == nil {
		release()
	}
	return err
}

// Warm loads everything and waits until the precompiled headers are made, too.
func (t *Toolchain) Warm(ctx context.Context) error {
	tools, release, err := t.tools.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	select {
	case <-tools.headersDone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run runs a command: a compiler, or the program of that path. An error means that
// nothing ran.
func (t *Toolchain) Run(ctx context.Context, r *guest.Run) (guest.Result, error) {
	name := r.Program.Argv[0]
	switch {
	case IsProgram(name):
		return runProgram(ctx, r)
	case name == CommandC, name == CommandCPP:
		tools, release, err := t.tools.acquire(ctx)
		if err != nil {
			return guest.Result{}, err
		}
		defer release()
		return tools.compile(ctx, r)
	}
	return guest.Result{}, fmt.Errorf("clang: no command %q", path.Base(name))
}

// errClosed is the cause of what is loading when the toolchain is closed.
var errClosed = errors.New("clang: closed")
