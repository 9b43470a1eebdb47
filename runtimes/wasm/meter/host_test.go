package meter_test

import (
	"context"
	"testing"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// refillFrom gives a runtime the slice callback: it grants slices of a size until
// the counter is not below zero.
func refillFrom(t testing.TB, r wazero.Runtime, slice int64) {
	t.Helper()
	onSlice(t, r, func(_ context.Context, counter api.MutableGlobal) {
		left := int64(counter.Get())
		for left < 0 {
			left += slice
		}
		counter.Set(uint64(left))
	})
}

// onSlice gives a runtime a slice callback.
func onSlice(t testing.TB, r wazero.Runtime, f func(context.Context, api.MutableGlobal)) {
	t.Helper()
	_, err := r.NewHostModuleBuilder(meter.SliceModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, _ []uint64) {
			f(ctx, m.ExportedGlobal(meter.CounterExport).(api.MutableGlobal))
		}), nil, nil).
		Export(meter.SliceName).Instantiate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
}
