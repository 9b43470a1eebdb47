package interp

import (
	"context"
	"errors"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/cpython"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/sqlite"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// newCPython makes the interpreter of the build that cfg.Packs has.
func newCPython(ctx context.Context, wasm []byte, host machine.Host, cfg Config) (interpreter, error) {
	built := cfg.Packs.Built(packs.CPython)
	if built == nil {
		return cpython.New(ctx, cpython.Pinned(wasm), host, sqlite.Tool())
	}
	library, err := built.OpenLibrary()
	if err != nil {
		return nil, err
	}
	p, err := cpython.New(ctx, cpython.Optimised(wasm, library, built.LibraryDir, built.Exports, built.Digest[:]), host, sqlite.Tool())
	if err != nil {
		return nil, errors.Join(err, library.Close())
	}
	return withLibrary{p, library}, nil
}

// withLibrary closes the library after the interpreter that reads it.
type withLibrary struct {
	*cpython.Interpreter
	library *packs.Library
}

func (p withLibrary) Close(ctx context.Context) error {
	return errors.Join(p.Interpreter.Close(ctx), p.library.Close())
}
