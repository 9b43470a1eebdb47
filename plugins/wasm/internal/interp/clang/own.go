package clang

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// ownSources are what programs need besides the libraries: their start, and what is
// missing for C++.
//
//go:embed sysroot/start.c sysroot/cpp.c
var ownSources embed.FS

// Object files made of them.
const (
	startObject = "start.o"
	cppObject   = "cpp.o"
)

// makeObjects compiles them.
func (t *tools) makeObjects(ctx context.Context) error {
	t.parts = map[string][]byte{}
	for object, source := range map[string]string{startObject: "start.c", cppObject: "cpp.c"} {
		text, err := ownSources.ReadFile("sysroot/" + source)
		if err != nil {
			return fmt.Errorf("clang: %w", err)
		}
		argv := append(compiler("c"), defaultLevel, "-emit-obj", "-o", "-", "-x", "c", buildDir+"/"+source)
		if t.parts[object], err = t.make(ctx, argv, mount{buildDir, newTree(2, map[string][]byte{source: text})}); err != nil {
			return err
		}
	}
	return nil
}

// make runs the compiler on something of our own and returns what it writes to its
// standard output.
func (t *tools) make(ctx context.Context, argv []string, source mount) (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "caisson-clang-")
	if err != nil {
		return nil, fmt.Errorf("clang: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	root, err := os.OpenRoot(dir) // that every run needs, and this one does not see
	if err != nil {
		return nil, fmt.Errorf("clang: %w", err)
	}
	defer func() { _ = root.Close() }()
	r, err := guest.New(ctx, guest.Program{Argv: argv, Data: guest.Mount{Root: root}}, 0)
	if err != nil {
		return nil, fmt.Errorf("clang: %w", err)
	}
	defer r.Close()
	v := invocation{
		module: t.clang, argv: argv, mounts: []mount{{sysrootDir, t.sysroot}, source},
		out: &sink{max: maxHeader}, msgs: &sink{max: maxMessages}, fuel: toolFuel,
	}
	res, err := v.run(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case res.Reason != guest.ReasonExit || res.Code != 0 || v.out.full:
		return nil, fmt.Errorf("clang: compile what belongs to it: %s, code %d: %s", res.Reason, res.Code, v.msgs.content)
	}
	return v.out.content, nil
}
