package meter

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
)

// FuzzRewrite checks for any bytes that rewriting does not panic and takes memory in
// proportion, that it is an identity without options, and that metering makes
// nothing valid invalid and nothing invalid valid.
func FuzzRewrite(f *testing.F) {
	for _, g := range goldenModules() {
		f.Add(g.module)
	}
	f.Add(spinner())
	f.Add(unstableModuleBytes())
	f.Add(body("ivd", ops(opPrefixVector, vectorConst, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, opLocalSet, 1)))
	addFiles(f, "internal/integration_test/spectest/v2/testdata/*.wasm", 60)
	addFiles(f, "internal/integration_test/spectest/tail-call/testdata/*.wasm", 5)
	addFiles(f, "internal/integration_test/fuzzcases/testdata/*.wasm", 2)

	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(allFeatures))
	f.Cleanup(func() { r.Close(ctx) })
	valid := func(module []byte) error {
		c, err := r.CompileModule(ctx, module)
		if err == nil {
			c.Close(ctx)
		}
		return err
	}
	limits := Limits{ModuleBytes: 1 << 20, Locals: 2000, FunctionBytes: 1 << 16, Nesting: 200, BranchTargets: 1000}
	f.Fuzz(func(t *testing.T, module []byte) {
		// Custom sections are left out: wazero refuses some because of where they are.
		same, err := Rewrite(module, Options{Custom: DropCustom, Limits: limits})
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("an error of another kind: %v", err)
			}
			if _, err := Rewrite(module, Options{Fuel: &Fuel{}, Limits: limits}); err == nil {
				t.Fatal("refused as it is, and accepted to be metered")
			}
			return
		}
		asItWas := valid(module)
		plain := valid(same.Module)
		if asItWas == nil && plain != nil {
			t.Fatalf("valid, and no longer: %v", plain)
		}
		for _, opts := range []Options{
			{Fuel: &Fuel{}, Custom: DropCustom, Limits: limits},
			{Fuel: &Fuel{Seed: 5}, DropData: true, Unstable: true, Custom: DropCustom, Limits: limits},
		} {
			res, err := Rewrite(module, opts)
			if err != nil {
				if errors.Is(err, ErrMalformed) && plain == nil && !opts.Unstable {
					t.Fatalf("valid, and refused: %v", err)
				}
				continue
			}
			if err := valid(res.Module); (err == nil) != (plain == nil) && !(err == nil && opts.DropData) {
				t.Fatalf("as it was: %v; metered: %v", plain, err)
			}
			if n := 40*len(module) + 4096; len(res.Module) > n {
				t.Fatalf("%d bytes became %d", len(module), len(res.Module))
			}
			again, err := Rewrite(module, opts)
			if err != nil || !bytes.Equal(again.Module, res.Module) {
				t.Fatalf("a second time gives another module: %v", err)
			}
			if _, err := Rewrite(res.Module, Options{}); !errors.Is(err, ErrReserved) {
				t.Fatalf("a metered module was taken once more: %v", err)
			}
		}
	})
}

// addFiles adds every nth file of wazero's that matches, if they are there.
func addFiles(f *testing.F, pattern string, nth int) {
	dir := findWazero()
	if dir == "" {
		return
	}
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		f.Fatal(err)
	}
	for i := 0; i < len(files); i += nth {
		if data, err := os.ReadFile(files[i]); err == nil && len(data) < 1<<16 {
			f.Add(data)
		}
	}
}
