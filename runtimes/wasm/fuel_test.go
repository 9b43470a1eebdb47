package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/runtimes/wasm/meter"
)

// repeat runs body for ever.
func repeat(body ...any) []byte { return code(opLoop, blockVoid, code(body...), opBr, 0, opEnd) }

const wasiModule = "wasi_snapshot_preview1"

// endless are the ways in which guest code goes on for ever or for years. Each is a
// guest that does so when it is asked for opEvil.
func endless() map[string]func() *guestAsm {
	evil := func(pages uint32, parts ...any) func() *guestAsm {
		return func() *guestAsm {
			g := newGuest(whenOp(opEvil, code(parts...)))
			g.pages = pages
			g.tables = [][]byte{code(0x70, 0, uleb(1000))}
			return g
		}
	}
	// host calls a function of the host again and again.
	host := func(pages uint32, module, field string, params, results []byte, before, args []byte) func() *guestAsm {
		return func() *guestAsm {
			g := newGuest(nil)
			g.pages = pages
			f := g.importFunc(module, field, params, results)
			drop := code()
			for range results {
				drop = code(opDrop)
			}
			g.body = whenOp(opEvil, code(before, repeat(args, call(f), drop)))
			return g
		}
	}
	i32x4 := []byte{tI32, tI32, tI32, tI32}
	one := []byte{tI32}
	const memory = 128 * pageBytes
	return map[string]func() *guestAsm{
		"loop": evil(1, forever()),
		"tree of calls": func() *guestAsm {
			g := newGuest(nil)
			tree := g.fn(one, nil, nil)
			half := code(get(0), i32Const(1), 0x6b, call(tree))
			g.funcs[tree].body = code(get(0), opIf, blockVoid, half, half, opEnd)
			g.body = whenOp(opEvil, code(i32Const(90), call(tree)))
			return g
		},
		"tail calls": func() *guestAsm {
			g := newGuest(nil)
			f := g.fn(nil, nil, nil)
			g.funcs[f].body = code(0x12, uleb(uint64(f)))
			g.body = whenOp(opEvil, call(f))
			return g
		},
		"memory.fill":             evil(128, repeat(i32Const(0), i32Const(7), i32Const(memory), 0xfc, 0x0b, 0)),
		"memory.copy":             evil(128, repeat(i32Const(1), i32Const(0), i32Const(memory-1), 0xfc, 0x0a, 0, 0)),
		"memory.grow, refused":    evil(1, repeat(i32Const(60000), opMemory, 0, opDrop)),
		"memory.grow, by nothing": evil(1, repeat(i32Const(0), opMemory, 0, opDrop)),
		"table.fill":              evil(1, repeat(i32Const(0), 0xd0, 0x70, i32Const(1000), 0xfc, 0x11, 0)),
		"table.copy":              evil(1, repeat(i32Const(1), i32Const(0), i32Const(999), 0xfc, 0x0e, 0, 0)),
		"table.grow":              evil(1, repeat(0xd0, 0x70, i32Const(100), 0xfc, 0x0f, 0, opDrop)),
		"log": host(1, "host_v1", "log", i32x3, nil, nil,
			code(i32Const(0), i32Const(0), i32Const(60000))),
		"rand": host(2, "host_v1", "rand", []byte{tI32, tI32}, nil, nil,
			code(i32Const(0), i32Const(maxRandBytes))),
		"clock": host(1, "host_v1", "now_ms", nil, []byte{tI64}, nil, nil),
		"random_get of all memory": host(128, wasiModule, "random_get", []byte{tI32, tI32}, one, nil,
			code(i32Const(0), i32Const(memory))),
		// Every iovec is zero: empty writes.
		"fd_write of many nothings": host(128, wasiModule, "fd_write", i32x4, one, nil,
			code(i32Const(2), i32Const(64), i32Const(100_000), i32Const(0))),
		"poll_oneoff": host(128, wasiModule, "poll_oneoff", i32x4, one, nil,
			code(i32Const(0), i32Const(memory/2), i32Const(50_000), i32Const(memory-8))),
		"sched_yield": host(1, wasiModule, "sched_yield", nil, one, nil, nil),
		"path_open of a long name": host(128, wasiModule, "path_open",
			[]byte{tI32, tI32, tI32, tI32, tI32, tI64, tI64, tI32, tI32}, one, nil,
			code(i32Const(3), i32Const(0), i32Const(0), i32Const(memory), i32Const(0), i64Const(0), i64Const(0), i32Const(0), i32Const(0))),
	}
}

// endlessSpec is for a guest of endless.
func endlessSpec(g *guestAsm, limits Limits) Spec {
	limits.Instances, limits.Wait, limits.MemoryBytes = 1, time.Minute, 16<<20
	return Spec{Name: "endless", Module: g.build(), WASI: true, Imports: hostFunctions, Limits: limits}
}

// TestEverythingEndsByTime has every shape of code that does not end by itself, and
// plenty of fuel.
func TestEverythingEndsByTime(t *testing.T) {
	for name, guest := range endless() {
		t.Run(name, func(t *testing.T) {
			const limit = 100 * time.Millisecond
			m := mustLoad(t, endlessSpec(guest(), Limits{Timeout: limit, Fuel: maxFuel}), fuelStop{})
			ended := uint64(2)
			for range 2 {
				began := time.Now()
				r, err := m.Do(context.Background(), opEvil, []byte("in"), []byte("kept"))
				t.Logf("ended after %v with %d units used", time.Since(began).Round(100*time.Microsecond), r.Fuel)
				if !errors.Is(err, ReasonTimeout) || !strings.Contains(err.Error(), "endless\": op 2000: timeout: guest code ran longer than 100ms") {
					t.Errorf("got %v", err)
				}
				if string(r.Reply) != "kept" || r.Fuel <= 0 {
					t.Errorf("got %q and %d units", r.Reply, r.Fuel)
				}
				ended += lives(t, m)
			}
			if s := m.Stats(); s.Discards != ended || s.Refills != ended || s.Failures[ReasonTimeout] != ended || s.FuelHigh == 0 || s.Fuel < s.FuelHigh {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// lives asks for an echo until the limits let it through: they are small, and the
// machine may be busy. It returns how often they did not.
func lives(t *testing.T, m *Module) (late uint64) {
	t.Helper()
	for ; ; late++ {
		out, err := m.Call(context.Background(), opEcho, []byte("hello"), nil)
		if errors.Is(err, ReasonTimeout) {
			continue
		}
		if err != nil || string(out) != "hello" {
			t.Errorf("echo: %q, %v", out, err)
		}
		return late
	}
}

// TestEverythingEndsByFuel has the same shapes and plenty of time. Each must end at
// the same place however often it is repeated, and close to the limit.
func TestEverythingEndsByFuel(t *testing.T) {
	for name, guest := range endless() {
		t.Run(name, func(t *testing.T) {
			const limit = 100 // what the host does is not charged, and takes its time
			m := mustLoad(t, endlessSpec(guest(), Limits{Timeout: 10 * time.Minute, Fuel: limit}), fuelStop{})
			var used []int64
			for range 2 {
				r, err := m.Do(context.Background(), opEvil, nil, nil)
				if !errors.Is(err, ReasonFuel) || !strings.HasSuffix(err.Error(), "fuel: guest code used more than 100 units of fuel") {
					t.Fatalf("got %v", err)
				}
				used = append(used, r.Fuel)
				if got := mustCall(t, m, opEcho, "hello"); got != "hello" {
					t.Errorf("echo: %q", got)
				}
			}
			if used[0] != used[1] || used[0] <= limit || used[0] > limit+2*meterMiB {
				t.Errorf("used %v", used)
			}
			if s := m.Stats(); s.Discards != 2 || s.Failures[ReasonFuel] != 2 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// meterMiB is what a slice of a bulk instruction costs, by which a limit can be
// passed.
const meterMiB = 1<<20/8 + 16

// TestInfiniteRecursion ends by itself: there is only so much stack.
func TestInfiniteRecursion(t *testing.T) {
	g := newGuest(nil)
	f := g.fn(nil, nil, nil)
	g.funcs[f].body = code(call(f))
	g.body = whenOp(opEvil, call(f))
	m := mustLoad(t, endlessSpec(g, Limits{Timeout: time.Minute, Fuel: maxFuel}), fuelStop{})
	if _, err := m.Call(context.Background(), opEvil, nil, nil); !errors.Is(err, ReasonTrap) || !strings.Contains(err.Error(), "stack overflow") {
		t.Errorf("got %v", err)
	}
	lives(t, m)
}

// TestStartIsLimited has a start that does not end: by time, and by fuel.
func TestStartIsLimited(t *testing.T) {
	for _, tc := range []struct {
		name   string
		body   []byte
		limit  time.Duration
		reason Reason
	}{
		{"by time", forever(), 30 * time.Millisecond, ReasonTimeout},
		{"by fuel", forever(), 10 * time.Minute, ReasonFuel},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := newGuest(nil)
			g.start = int(g.fn(nil, nil, tc.body)) + 1
			stop := stopper(fuelStop{})
			if tc.reason == ReasonFuel {
				stop = lessFuel{fuelStop{}}
			}
			spec := Spec{Name: "slow", Module: g.build(), Limits: Limits{Instances: 1, StartTimeout: tc.limit}}
			_, err := load(t.Context(), spec, stop)
			if !errors.Is(err, tc.reason) || !strings.HasPrefix(err.Error(), `wasm module "slow": start: `) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// lessFuel allows little of it, so that a test need not burn ten minutes' worth.
type lessFuel struct{ stopper }

func (l lessFuel) arm(ctx context.Context, in *instance, b bounds) context.Context {
	b.fuel /= 1_000_000
	return l.stopper.arm(ctx, in, b)
}

// TestFuelIsRepeatable calls the same from instances that are fresh and used, alone
// and beside others that do something else.
func TestFuelIsRepeatable(t *testing.T) {
	count := code(
		// As many rounds as the input is long, a call of the host in each, and growing
		// once.
		i32Const(1), opMemory, 0, opDrop,
		opLoop, blockVoid, get(2), i32Const(1), 0x6b, 0x22, 2, 0x0d, 0, opEnd,
		i32Const(0), i32Const(9), i32Const(5000), 0xfc, 0x0b, 0,
	)
	g := newGuest(whenOp(opEvil, count))
	m := mustLoad(t, Spec{Name: "count", Module: g.build(), Limits: Limits{Instances: 4}}, fuelStop{})
	in := bytes.Repeat([]byte("x"), 300)
	var mu sync.Mutex
	var used []int64
	ask := func() {
		r, err := m.Do(context.Background(), opEvil, in, nil)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		used = append(used, r.Fuel)
	}
	ask()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if i%2 == 0 {
					ask()
				} else if _, err := m.Call(context.Background(), opEcho, in[:i], nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(used)
	if used[0] <= 0 || used[0] != used[len(used)-1] {
		t.Errorf("used between %d and %d units", used[0], used[len(used)-1])
	}
}

// TestPoliciesAreRepeatable has policies whose calls differ from each other, because
// they collect their garbage now and then: the same calls to a fresh instance use the
// same. The one in Go is deterministic, or its map seeds would differ.
func TestPoliciesAreRepeatable(t *testing.T) {
	if testing.Short() {
		t.Skip("one call at a time, for a long time")
	}
	r := request()
	in := r.AppendJSON(nil)
	for name, spec := range policies(t) {
		t.Run(name, func(t *testing.T) {
			spec.Limits.Instances = 1
			sequence := func() (used []int64) {
				m := mustLoad(t, spec, fuelStop{})
				for range 50 {
					r, err := m.Do(context.Background(), OpAdmit, in, nil)
					if err != nil {
						t.Fatal(err)
					}
					used = append(used, r.Fuel)
				}
				return append(used, int64(m.Stats().StartFuel))
			}
			first, second := sequence(), sequence()
			if !slices.Equal(first, second) {
				t.Errorf("used %v, then %v", first, second)
			}
			start := first[50]
			calls := first[:50]
			t.Logf("%d units to start, %d to %d a call", start, slices.Min(calls), slices.Max(calls))
		})
	}
}

// TestFuelLimitIsExact finds the least limit with which a call succeeds: it is what
// the call reports to use.
func TestFuelLimitIsExact(t *testing.T) {
	module := newGuest(whenOp(opEvil, code(i32Const(0), i32Const(9), i32Const(5000), 0xfc, 0x0b, 0))).build()
	ask := func(limit int64) (int64, error) {
		m := mustLoad(t, Spec{Name: "fill", Module: module, Limits: Limits{Instances: 1, Fuel: limit}}, fuelStop{})
		r, err := m.Do(context.Background(), opEvil, []byte("x"), nil)
		return r.Fuel, err
	}
	used, err := ask(0)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ask(used); err != nil || again != used {
		t.Errorf("with %d units: used %d, %v", used, again, err)
	}
	// Not every instruction looks at the counter: the last few are free.
	if _, err := ask(used / 2); !errors.Is(err, ReasonFuel) {
		t.Errorf("with half of %d units: %v", used, err)
	}
}

func TestFuelDefaults(t *testing.T) {
	for _, tc := range []struct {
		given Limits
		want  int64
	}{
		{Limits{}, 3_000_000_000},
		{Limits{Timeout: 100 * time.Millisecond}, 300_000_000},
		{Limits{Timeout: 100 * time.Millisecond, Fuel: 5}, 5},
		{Limits{Timeout: 1000 * time.Hour}, maxFuel / 3 * 3},
	} {
		l := tc.given
		if err := l.check(); err != nil || l.Fuel != tc.want {
			t.Errorf("%+v: %d units, %v", tc.given, l.Fuel, err)
		}
	}
	for _, fuel := range []int64{-1, maxFuel + 1} {
		l := Limits{Fuel: fuel}
		if err := l.check(); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("limits.fuel: %d is not between 0 and", fuel)) {
			t.Errorf("%d: %v", fuel, err)
		}
	}
}

// TestUnmetered has a module that uses exceptions.
func TestUnmetered(t *testing.T) {
	const tryTable = 0x1f
	g := newGuest(code(tryTable, blockVoid, 0, opEnd, whenOp(opEvil, forever())))
	spec := Spec{Name: "throws", Module: g.build(), Limits: Limits{Instances: 1, Timeout: 100 * time.Millisecond, Wait: time.Minute}}

	for name, tc := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"by default":        {func(*Spec) {}, "module refused: its code cannot be metered: unsupported WebAssembly feature: code section, function 2, offset "},
		"with fuel limited": {func(s *Spec) { s.Unmetered = true; s.Limits.Fuel = 1000 }, "module refused: limits.fuel cannot be kept: unsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := spec
			tc.change(&spec)
			m, err := Load(t.Context(), spec)
			if err == nil {
				mustClose(t, m)
			}
			if !errors.Is(err, ErrRefused) || !errors.Is(err, meter.ErrUnsupported) || !strings.Contains(err.Error(), tc.want) || !strings.HasSuffix(err.Error(), "try_table (exception handling)") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("allowed", func(t *testing.T) {
		spec.Unmetered = true
		info, err := Check(t.Context(), spec)
		if err != nil || info.Stop != StopContext {
			t.Errorf("check: %+v, %v", info, err)
		}
		m := mustLoad(t, spec, fuelStop{})
		if got := m.Info().Stop; got != StopContext {
			t.Errorf("stopped by %s", got)
		}
		r, err := m.Do(context.Background(), opEvil, nil, nil)
		if !errors.Is(err, ReasonTimeout) || r.Fuel != 0 {
			t.Errorf("got %v, %d units", err, r.Fuel)
		}
		lives(t, m)
	})
}

// Names of the host's own are refused, whatever the manifest says.
func TestReservedNames(t *testing.T) {
	g := newGuest(nil)
	g.export(meter.CounterExport, 0)
	if _, err := Load(t.Context(), Spec{Name: "x", Module: g.build(), Unmetered: true}); !errors.Is(err, ErrRefused) || !errors.Is(err, meter.ErrReserved) {
		t.Errorf("export: %v", err)
	}
	g = newGuest(nil)
	g.importFunc(meter.SliceModule, meter.SliceName, nil, nil)
	if _, err := Load(t.Context(), Spec{Name: "x", Module: g.build(), Unmetered: true}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "module imports caisson.meter.slice which its manifest does not grant") {
		t.Errorf("import: %v", err)
	}
}
