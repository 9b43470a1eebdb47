package interp

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// spinners compute in eight ways that are hard to interrupt.
var spinners = []string{
	"while True: pass",
	"import re\nwhile True: re.match('(a+)+$', 'a' * 30 + 'b')",
	"x = 7 ** 60000\nwhile True: x * x",
	"while True: x = [bytearray(1 << 20) for _ in range(100)]",
	"b = bytearray(64 << 20)\nc = bytearray(64 << 20)\nwhile True: b[:] = c",
	"while True: x = bytes(100 << 20)",
	"def f(n): return f(n - 1) + f(n - 1) if n else 1\nf(60)",
	"while True: sorted(range(100000), key=lambda x: -x)",
}

// BenchmarkHeartbeat measures how late a goroutine of this process wakes up that
// sleeps for a millisecond at a time, while eight guests compute and the garbage
// collector runs; and for comparison while eight goroutines do that the scheduler can
// preempt anywhere, and while nothing does.
func BenchmarkHeartbeat(b *testing.B) {
	need(b, "python3")
	e := newEngine(b, Config{MaxRunning: len(spinners), Parked: -1})
	machineOf(b, e, hello[0].pack)
	for name, work := range map[string]func(ctx context.Context, i int){
		"nothing": func(context.Context, int) {},
		"goroutines": func(ctx context.Context, _ int) {
			for n := 0; ctx.Err() == nil; {
				for range 1 << 20 {
					n++
				}
			}
		},
		"guests": func(ctx context.Context, i int) {
			s := newSandbox(b)
			if o := s.on(ctx, e, s.program("python3", "main.py", spinners[i])); o.Reason != ReasonTimeout {
				b.Errorf("spinner %d: %s", i, short(o))
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			var late []time.Duration
			for b.Loop() {
				ctx, cancel := context.WithTimeout(b.Context(), time.Second)
				var wg sync.WaitGroup
				for i := range spinners {
					wg.Go(func() { work(ctx, i) })
				}
				wg.Go(func() {
					for ctx.Err() == nil && name != "nothing" {
						runtime.GC()
					}
				})
				late = append(late, heartbeat(ctx)...)
				wg.Wait()
				cancel()
			}
			slices.Sort(late)
			for metric, at := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
				b.ReportMetric(float64(late[int(at*float64(len(late)-1))].Microseconds())/1000, metric+"-late-ms")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// heartbeat sleeps for a millisecond until ctx ends, and returns by how much each
// was late.
func heartbeat(ctx context.Context) (late []time.Duration) {
	const beat = time.Millisecond
	t := time.NewTicker(beat)
	defer t.Stop()
	last := time.Now()
	for ctx.Err() == nil {
		<-t.C
		now := time.Now()
		late = append(late, max(now.Sub(last)-beat, 0))
		last = now
	}
	return late
}

// BenchmarkParallel measures how long programs that compute take together, beside
// as long as one takes alone: with the queue in front, 32 of them should take little
// more than their share of the processors.
func BenchmarkParallel(b *testing.B) {
	need(b, "python3")
	s := newSandbox(b)
	p := s.program("python3", "main.py", "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(23)")
	s.runOn(shared, p)
	for _, n := range []int{1, 2, 8, 32, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() {
						if o := s.runOn(shared, p); o.Code != 0 {
							b.Errorf("%s", short(o))
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N)/float64(n)*float64(min(n, runtime.GOMAXPROCS(0))), "ms/run/processor")
		})
	}
}
