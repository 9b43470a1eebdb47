package interp

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/machine"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// machineOf returns what makes the instances of a pack's interpreter.
func machineOf(t testing.TB, e *Engine, pack string) *machine.Machine {
	t.Helper()
	in, err := e.interpreter(context.Background(), pack)
	if err != nil {
		t.Fatal(err)
	}
	return in.(interface{ Machine() *machine.Machine }).Machine()
}

// hello is the shortest program of each interpreter, and how its native counterpart
// is started for the same.
var hello = []struct {
	interpreter, pack, file, source string
	native                          []string
}{
	{"python3", packs.CPython, "main.py", "print(1)", []string{"python3", "-I", "-c", "print(1)"}},
	{"node", packs.QuickJS, "main.js", "console.log(1)", []string{"node", "-e", "console.log(1)"}},
}

// report adds percentiles of the times of single runs.
func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	for name, at := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		b.ReportMetric(float64(took[int(at*float64(len(took)-1))].Microseconds())/1000, name+"-ms")
	}
}

// BenchmarkFresh measures one program at a time, each in a fresh instance: one that
// was parked, one that is made when the program comes, one that is not started from
// the image, and for comparison a native process.
func BenchmarkFresh(b *testing.B) {
	for _, h := range hello {
		need(b, h.interpreter)
		s := newSandbox(b)
		p := s.program(h.interpreter, h.file, h.source)
		m := machineOf(b, shared, h.pack)
		measure := func(b *testing.B, e *Engine, p Program, ready func()) {
			s.runOn(e, p)
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				ready()
				b.StartTimer()
				start := time.Now()
				if o := s.runOn(e, p); o.Code != 0 || o.stdout != "1\n" {
					b.Fatalf("%+v", o)
				}
				took = append(took, time.Since(start))
			}
			report(b, took)
		}
		b.Run(h.interpreter+"/parked", func(b *testing.B) {
			measure(b, shared, p, func() {
				for m.Parked() == 0 {
					runtime.Gosched()
				}
			})
		})
		b.Run(h.interpreter+"/unparked", func(b *testing.B) {
			e := newEngine(b, Config{Parked: -1})
			measure(b, e, p, func() {})
		})
		if h.interpreter == "python3" {
			b.Run(h.interpreter+"/no-image", func(b *testing.B) {
				cold := p
				cold.Env = map[string]string{"PYTHONHASHSEED": "0"}
				measure(b, shared, cold, func() {})
			})
		}
		b.Run(h.interpreter+"/native", func(b *testing.B) { native(b, h.native[0], h.native[1:]...) })
	}
}

// BenchmarkThroughput measures how many fresh instances run a short program per
// second when so many clients want the next one at once.
func BenchmarkThroughput(b *testing.B) {
	for _, h := range hello {
		need(b, h.interpreter)
		s := newSandbox(b)
		p := s.program(h.interpreter, h.file, h.source)
		for _, clients := range []int{1, 2, 8, 32} {
			b.Run(h.interpreter+"/"+string(rune('0'+clients/10))+string(rune('0'+clients%10)), func(b *testing.B) {
				for range 10 {
					s.runOn(shared, p)
				}
				took := make([][]time.Duration, clients)
				work := make(chan struct{})
				var wg sync.WaitGroup
				for c := range clients {
					wg.Go(func() {
						for range work {
							start := time.Now()
							if o := s.runOn(shared, p); o.Code != 0 || o.stdout != "1\n" {
								b.Errorf("%+v", o)
							}
							took[c] = append(took[c], time.Since(start))
						}
					})
				}
				for b.Loop() {
					work <- struct{}{}
				}
				close(work)
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
				report(b, slices.Concat(took...))
			})
		}
	}
}
