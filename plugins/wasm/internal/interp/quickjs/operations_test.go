package quickjs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/sys"
	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/region"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/testcache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// boot returns the interpreter, or skips the test when the pack is missing.
func boot(t *testing.T) *Interpreter {
	t.Helper()
	wasm, _, err := packs.Locate("../../../packs").Read(packs.QuickJS)
	if err != nil {
		t.Skip(err)
	}
	// Shared with the tests of package interp; see there.
	cache := testcache.Dir()
	host := machine.Host{Regions: region.NewPool(2), Cache: codecache.Cache{Dir: cache}, Parked: 1}
	q, err := New(context.Background(), wasm, host, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(q.Close(context.Background()), host.Regions.Close()); err != nil {
			t.Error(err)
		}
	})
	return q
}

// A guest is free to call the host with anything, also what the library never
// passes: it gets an error or its own end, never the host's.
func TestOperationsTakeAnything(t *testing.T) {
	q := boot(t)
	hostile := []string{
		"undefined", "null", "''", "'x'", "'/mnt/data/f'", "'../../etc/passwd'", "'a\\0b'", "'\\ud800'", "'x'.repeat(1e5)",
		"NaN", "-1", "0", "3", "1e300", "-1e300", "Infinity", "2 ** 53", "true", "10n", "Symbol('s')",
		"new Uint8Array(0)", "new Uint8Array([255, 0, 13])", "new Float64Array(3)", "new DataView(new ArrayBuffer(8))",
		"new ArrayBuffer(16)", "(() => { const b = new ArrayBuffer(8); const u = new Uint8Array(b); b.transfer(); return u })()",
		"({ toString() { throw new Error('no') } })", "({ valueOf() { return 5 } })", "Promise.reject(1)", "() => {}", "new Proxy({}, {})",
	}
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, op := range q.operations {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			r, err := guest.New(ctx, guest.Program{Argv: []string{"node"}, Data: guest.Mount{Root: dir}, MemoryBytes: 32 << 20}, q.MinMemoryBytes())
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			v, err := q.take(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			defer v.close()
			err = v.guard(func() error {
				var vals []uint64
				for _, source := range hostile {
					code, n := v.alloc(source)
					val, err := v.eval(span{code, n}, "hostile.js", evalScript)
					if err != nil {
						return fmt.Errorf("%s: %w", source, v.describe(err))
					}
					vals = append(vals, val)
				}
				for i := range vals {
					for _, shift := range []int{0, 1, 7, 13, 18} {
						j, k := (i+shift)%len(vals), (i+2*shift)%len(vals)
						a := args{v: v, n: 4, vals: [maxArgs]uint64{vals[i], vals[j], vals[k], vals[j]}}
						if out := op(v, a); out != 0 {
							v.free(out)
						} else {
							v.free(v.call("qjs_get_exception"))
						}
					}
				}
				op(v, args{v: v})
				return nil
			})
			var exit *sys.ExitError
			if err != nil && !errors.As(err, &exit) && !errors.Is(err, outOfMemory) {
				t.Error(err)
			}
		})
	}
}
