package wasm

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/policy"
)

// stops are the ways to stop guest code: none at all, fuel, and wazero's own
// cancellation.
var stops = []stopper{noStop{}, fuelStop{}, contextStop{}}

// median makes calls until the benchmark is long enough, and reports the median time
// of one beside the mean. It looks at the clock once in several calls: some are as
// short as the look.
func median(b *testing.B, call func()) {
	b.Helper()
	const batch = 8
	times := make([]time.Duration, 0, 1<<20)
	b.ReportAllocs()
	began := time.Now()
	for n := 1; b.Loop(); n++ {
		if call(); n%batch == 0 && len(times) < cap(times) {
			now := time.Now()
			times = append(times, now.Sub(began))
			began = now
		}
	}
	if len(times) > 0 {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2])/batch, "p50-ns/op")
	}
}

// BenchmarkModuleCall compares guests and ways to stop them on one call through the pool.
//
//	go test -run '^$' -bench Call ./runtimes/wasm
func BenchmarkModuleCall(b *testing.B) {
	r := request()
	in := r.AppendJSON(nil)
	for _, bc := range []struct {
		name string
		spec Spec
		op   uint32
	}{
		{"echo/assembled", guests(b)["assembled"], opEcho},
		{"echo/assemblyscript", guests(b)["assemblyscript"], opEcho},
		{"echo/go", guests(b)["go"], opEcho},
		{"policy/assemblyscript", policies(b)["assemblyscript"], OpAdmit},
		{"policy/go", policies(b)["go"], OpAdmit},
	} {
		for _, stop := range stops {
			b.Run(bc.name+"/stop="+stop.name(), func(b *testing.B) {
				m := mustLoad(b, bc.spec, stop)
				out := make([]byte, 0, 4096)
				median(b, func() {
					var err error
					if out, err = m.Call(context.Background(), bc.op, in, out[:0]); err != nil {
						b.Fatal(err)
					}
				})
				if s := m.Stats(); s.Fuel > 0 {
					b.ReportMetric(float64(s.Fuel)/float64(s.Calls), "units/op")
				}
			})
		}
	}
}

// BenchmarkModuleCallers is BenchmarkModuleCall from as many callers as there are processors.
func BenchmarkModuleCallers(b *testing.B) {
	r := request()
	in := r.AppendJSON(nil)
	for _, stop := range stops {
		b.Run("policy/go/stop="+stop.name(), func(b *testing.B) {
			m := mustLoad(b, policies(b)["go"], stop)
			b.RunParallel(func(pb *testing.PB) {
				var out []byte
				for pb.Next() {
					var err error
					if out, err = m.Call(context.Background(), OpAdmit, in, out[:0]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkContract is the host's own work around a policy call: the request in,
// the verdict out.
func BenchmarkContract(b *testing.B) {
	r := request()
	verdict := []byte(`{"code":"tightened","decision":"allow","limits":{"wall_ms":5000},"reason":"short runs only"}`)
	b.Run("encode request", func(b *testing.B) {
		var in []byte
		b.ReportAllocs()
		for b.Loop() {
			in = r.AppendJSON(in[:0])
		}
	})
	b.Run("decode verdict", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := policy.DecodeVerdict(verdict); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkInstance is what a discarded instance costs to replace.
func BenchmarkInstance(b *testing.B) {
	for name, spec := range policies(b) {
		b.Run(name, func(b *testing.B) {
			m := mustLoad(b, spec, fuelStop{})
			for b.Loop() {
				in, err := m.newInstance(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				in.close()
			}
		})
	}
}

// BenchmarkFloor is the call protocol alone, on an instance held for the whole
// time: what is above it in BenchmarkModuleCall is the pool.
func BenchmarkFloor(b *testing.B) {
	r := request()
	in := r.AppendJSON(nil)
	m := mustLoad(b, guests(b)["assembled"], noStop{})
	held := <-m.idle
	defer func() { m.idle <- held }()
	out := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		var f failure
		if out, f = held.port.invoke(context.Background(), held, opEcho, in, out[:0]); f.reason != "" {
			b.Fatal(f)
		}
	}
}
