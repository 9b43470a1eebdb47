package meter

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// brief says to leave out, or sample, what takes long.
func brief() bool { return testing.Short() || raceEnabled }

const allFeatures = api.CoreFeaturesV2 | experimental.CoreFeaturesTailCall | experimental.CoreFeaturesExtendedConst

// newRuntime makes a runtime that ends with the test.
func newRuntime(t testing.TB) wazero.Runtime {
	t.Helper()
	r := wazero.NewRuntimeWithConfig(context.Background(), wazero.NewRuntimeConfig().WithCoreFeatures(allFeatures))
	t.Cleanup(func() { r.Close(context.Background()) })
	return r
}

// refillFrom gives a runtime the slice callback: it grants slices of a size until
// the counter is not below zero.
func refillFrom(t testing.TB, r wazero.Runtime, slice int64) {
	t.Helper()
	onSlice(t, r, func(_ context.Context, c Counter) {
		left := int64(c.Get())
		for left < 0 {
			left += slice
		}
		c.Set(uint64(left))
	})
}

// onSlice gives a runtime a slice callback.
func onSlice(t testing.TB, r wazero.Runtime, f func(context.Context, Counter)) {
	t.Helper()
	_, err := r.NewHostModuleBuilder(SliceModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, _ []uint64) {
			f(ctx, counterOf(m))
		}), nil, nil).
		Export(SliceName).Instantiate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
}

// counterOf returns the counter of an instance.
func counterOf(m api.Module) api.MutableGlobal {
	return m.ExportedGlobal(CounterExport).(api.MutableGlobal)
}

// rewrite fails the test if the module is refused.
func rewrite(t testing.TB, module []byte, opts Options) *Result {
	t.Helper()
	res, err := Rewrite(module, opts)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// instantiate fails the test if the module is not valid or its start function fails.
func instantiate(t testing.TB, r wazero.Runtime, module []byte) api.Module {
	t.Helper()
	m, err := r.InstantiateWithConfig(context.Background(), module, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// metered instantiates a module that is metered with slices of a size.
func metered(t testing.TB, module []byte, slice int64) api.Module {
	t.Helper()
	r := newRuntime(t)
	refillFrom(t, r, slice)
	return instantiate(t, r, rewrite(t, module, Options{Fuel: &Fuel{}}).Module)
}

// accounted instantiates a module whose callback keeps an account. A guest that is
// out of fuel ends with that error.
func accounted(t testing.TB, module []byte, slice, budget int64) (api.Module, *Account) {
	t.Helper()
	const seed = 1
	r := newRuntime(t)
	account := NewAccount(seed, slice, budget)
	onSlice(t, r, func(_ context.Context, c Counter) {
		if err := account.Refill(c); err != nil {
			panic(err)
		}
	})
	return instantiate(t, r, rewrite(t, module, Options{Fuel: &Fuel{Seed: seed}}).Module), account
}

// call returns the results, or the trap.
func call(m api.Module, name string, args ...uint64) ([]uint64, string) {
	out, err := m.ExportedFunction(name).Call(context.Background(), args...)
	return out, trap(err)
}
