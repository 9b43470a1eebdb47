package wasm

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// spinners is how many guests compute at once.
const spinners = 8

// BenchmarkModuleHeartbeat measures how late a goroutine of the host wakes up that wants to
// do so every millisecond, while eight guests of one pool compute without end and the
// collector runs all the time. Without guests at all, the same number of goroutines
// shows what the machine and Go's scheduler make of it.
//
//	go test -run '^$' -bench Heartbeat -benchtime 1x ./runtimes/wasm
func BenchmarkModuleHeartbeat(b *testing.B) {
	b.Run("goroutines", func(b *testing.B) {
		report(b, func(ctx context.Context) {
			for n := 0; ctx.Err() == nil; {
				for range 1 << 20 {
					n++
				}
			}
		})
	})
	guests := endless()
	for _, bc := range []struct {
		name string
		stop stopper
	}{
		{"loop", fuelStop{}},
		{"tree of calls", fuelStop{}},
		{"memory.fill", fuelStop{}},
		{"memory.copy", fuelStop{}},
		{"table.fill", fuelStop{}},
		{"random_get of all memory", fuelStop{}},
		// Any other would hold up the process until somebody ends it.
		{"loop", contextStop{}},
	} {
		b.Run(bc.name+"/stop="+bc.stop.name(), func(b *testing.B) {
			spec := endlessSpec(guests[bc.name](), Limits{Timeout: 100 * time.Millisecond, Fuel: maxFuel})
			spec.Limits.Instances, spec.Log = spinners, hclog.NewNullLogger()
			m := mustLoad(b, spec, bc.stop)
			report(b, func(ctx context.Context) {
				for ctx.Err() == nil {
					if _, err := m.Call(ctx, opEvil, nil, nil); !errors.Is(err, ReasonTimeout) && ctx.Err() == nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// report runs spin on several goroutines for two seconds an operation, and reports
// the heartbeat beside it.
func report(b *testing.B, spin func(context.Context)) {
	var gaps []time.Duration
	for b.Loop() {
		gaps = append(gaps, beatBeside(b.Context(), 2*time.Second, spin)...)
	}
	slices.Sort(gaps)
	for name, at := range map[string]int{"p50-ms": len(gaps) / 2, "p99-ms": len(gaps) * 99 / 100, "max-ms": len(gaps) - 1} {
		b.ReportMetric(float64(gaps[at].Microseconds())/1000, name)
	}
}

// beatBeside returns how late each heartbeat was while spin ran on several goroutines
// and the collector on another.
func beatBeside(ctx context.Context, span time.Duration, spin func(context.Context)) (late []time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	var wg sync.WaitGroup
	for range spinners {
		wg.Go(func() { spin(ctx) })
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			runtime.GC()
		}
	})
	defer wg.Wait()
	const beat = time.Millisecond
	t := time.NewTimer(beat)
	defer t.Stop()
	for began := time.Now(); ; began = time.Now() {
		t.Reset(beat)
		select {
		case <-ctx.Done():
			return append(late, max(0, time.Since(began)-beat))
		case <-t.C:
			late = append(late, max(0, time.Since(began)-beat))
		}
	}
}

// TestHeartbeat has eight guests of every shape at once compete with the heartbeat. It
// checks that the host goes on meanwhile, and reports how well.
func TestHeartbeat(t *testing.T) {
	var shapes []*Module
	for _, guest := range endless() {
		spec := endlessSpec(guest(), Limits{Timeout: 50 * time.Millisecond, Fuel: maxFuel})
		spec.Log = hclog.NewNullLogger()
		shapes = append(shapes, mustLoad(t, spec, fuelStop{}))
	}
	next := make(chan *Module, len(shapes))
	for _, m := range shapes {
		next <- m
	}
	late := beatBeside(t.Context(), time.Second, func(ctx context.Context) {
		for ctx.Err() == nil {
			m := <-next
			if _, err := m.Call(ctx, opEvil, nil, nil); !errors.Is(err, ReasonTimeout) && ctx.Err() == nil {
				t.Error(err)
			}
			next <- m
		}
	})
	slices.Sort(late)
	n := len(late)
	t.Logf("%d beats in a second, late by %v at the median, %v at p99, %v at worst", n, late[n/2], late[n*99/100], late[n-1])
	if n < 10 {
		t.Errorf("only %d beats in a second", n)
	}
	for _, m := range shapes {
		if s := m.Stats(); s.Calls == 0 || s.Failures[ReasonTimeout] == 0 {
			t.Errorf("a shape did not run: %+v", s)
		}
	}
}
