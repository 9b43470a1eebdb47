package meter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// FuzzCompute runs what valid modules export, metered and as it is, and compares all
// that can be seen: results, traps, memory and globals. What does not end within a
// budget is not compared beyond it.
func FuzzCompute(f *testing.F) {
	for _, g := range goldenModules() {
		f.Add(g.module)
	}
	f.Add(spinner())
	addFiles(f, "internal/integration_test/spectest/v2/testdata/*.wasm", 25)
	addFiles(f, "internal/integration_test/spectest/tail-call/testdata/*.wasm", 3)
	addFiles(f, "internal/integration_test/fuzzcases/testdata/*.wasm", 2)
	limits := Limits{ModuleBytes: 1 << 20, Locals: 1000, FunctionBytes: 1 << 14, Nesting: 200, BranchTargets: 1000}
	f.Fuzz(func(t *testing.T, module []byte) {
		opts := Options{Custom: DropCustom, Limits: limits, MaxMemoryPages: 8, MaxTableElements: 1000}
		plain, err := Rewrite(module, opts)
		if err != nil {
			return
		}
		const seed = 50
		opts.Fuel = &Fuel{Seed: seed}
		fueled, err := Rewrite(module, opts)
		if err != nil {
			return // FuzzRewrite has an eye on it
		}
		account := NewAccount(seed, 100, 20_000)
		ended := false
		got, all := observe(t, fueled.Module, 1<<10, func(c Counter) error {
			err := account.Refill(c)
			ended = ended || err != nil
			return err
		}, func() bool { return ended })
		if !all && len(got) == 0 {
			return
		}
		want, _ := observe(t, plain.Module, len(got), nil, func() bool { return false })
		for i := range got {
			if i >= len(want) || got[i] != want[i] && !strings.Contains(got[i]+want[i], "stack overflow") {
				t.Fatalf("step %d: metered %s, as it is %v", i, got[i], want[min(i, len(want)-1):])
			}
		}
	})
}

// observe runs a module and writes down what each step comes to, up to a number of
// steps or until over. It reports whether it ran to the end.
func observe(t *testing.T, module []byte, most int, refill func(Counter) error, over func() bool) (steps []string, all bool) {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(allFeatures))
	defer r.Close(ctx)
	if refill != nil {
		onSlice(t, r, func(_ context.Context, c Counter) {
			if err := refill(c); err != nil {
				panic(err)
			}
		})
	}
	note := func(format string, args ...any) bool {
		if over() || len(steps) >= most {
			return false
		}
		steps = append(steps, fmt.Sprintf(format, args...))
		return true
	}
	m, err := r.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return steps, note("not instantiated") // what is wrong with it, FuzzRewrite compares
	}
	var names []string
	for name := range m.ExportedFunctionDefinitions() {
		names = append(names, name)
	}
	slices.Sort(names)
	for round := range uint64(2) {
		for _, name := range names[:min(len(names), 20)] {
			fn := m.ExportedFunction(name)
			d := fn.Definition()
			args := make([]uint64, 0, 16)
			for i, p := range d.ParamTypes() {
				switch p {
				case api.ValueTypeExternref, 0x70: // a reference can only be null here
					args = append(args, 0)
				case 0x7b:
					args = append(args, round, uint64(i))
				default:
					args = append(args, round*(uint64(i)+3))
				}
			}
			out, err := fn.Call(ctx, args...)
			if errors.Is(err, ErrOutOfFuel) {
				return steps, false
			}
			for i, p := range resultSlots(d.ResultTypes()) {
				if i < len(out) && p == 0x70 && out[i] != 0 {
					out[i] = 1 // an address
				}
			}
			if !note("%s%v: %v %s; %s", name, args, out, trap(err), state(m)) {
				return steps, false
			}
		}
	}
	return steps, true
}

// resultSlots has the type of each word of results: a vector takes two.
func resultSlots(types []api.ValueType) (slots []api.ValueType) {
	for _, t := range types {
		slots = append(slots, t)
		if t == 0x7b {
			slots = append(slots, t)
		}
	}
	return slots
}

// state is the memory and the exported globals of an instance.
func state(m api.Module) string {
	var b bytes.Buffer
	if mem := m.ExportedMemory("memory"); mem != nil {
		view, _ := mem.Read(0, mem.Size())
		sum := uint64(14695981039346656037)
		for _, c := range view {
			sum = (sum ^ uint64(c)) * 1099511628211
		}
		fmt.Fprintf(&b, "%d bytes %x", mem.Size(), sum)
	}
	return b.String()
}
