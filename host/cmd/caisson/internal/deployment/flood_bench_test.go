package deployment

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/plugins/exec"
	"github.com/hashicorp/go-hclog"
)

// BenchmarkFlood is what one organisation's runs take on the embedded backend alone, and
// while another one keeps 32 short or long runs under way and waiting, within the limits
// that a server has by default.
func BenchmarkFlood(b *testing.B) {
	dir, err := filepath.Abs("../../../../../bin/plugins")
	if _, missing := os.Stat(filepath.Join(dir, "wasm", "plugin.yaml")); err != nil || missing != nil {
		b.Skip("SKIP: no built plugins: make build packs")
	}
	cache := os.Getenv("CAISSON_TEST_CACHE")
	if cache == "" {
		cache = b.TempDir()
	}
	d, err := Local(b.Context(), Options{
		File: config.Default(), PluginDirs: []string{dir}, CacheDir: cache, LookupEnv: os.LookupEnv, Log: hclog.NewNullLogger(),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := d.Close(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	}()
	const short = "print(1)"
	run := func(ctx context.Context, org, code string) error {
		_, err := d.Exec.Run(ctx, org, &exec.CodeRun{Lang: "py", Code: code})
		return err
	}
	for deadline := time.Now().Add(5 * time.Minute); run(b.Context(), "quiet", short) != nil; time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			b.Fatal("nothing runs")
		}
	}
	p99 := make(map[string]float64)
	measure := func(name string, b *testing.B) {
		var all []time.Duration
		for b.Loop() {
			began := time.Now()
			if err := run(b.Context(), "quiet", short); err != nil {
				b.Fatal(err)
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		at := func(q float64) float64 {
			return all[max(0, int(math.Ceil(q*float64(len(all))))-1)].Seconds() * 1000
		}
		p99[name] = at(0.99)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(at(0.5), "p50-ms")
		b.ReportMetric(at(0.99), "p99-ms")
	}
	b.Run("alone", func(b *testing.B) { measure("alone", b) })
	for _, flood := range [][2]string{{"short", short}, {"long", "sum(range(10**7))"}} {
		name, code := flood[0], flood[1]
		b.Run("flooded/"+name, func(b *testing.B) {
			ctx, stop := context.WithCancel(b.Context())
			var flood sync.WaitGroup
			for range 32 {
				flood.Go(func() {
					for ctx.Err() == nil {
						_ = run(ctx, "flood", code) // a 429 is part of it
					}
				})
			}
			measure(name, b)
			stop()
			flood.Wait()
			if p99["alone"] > 0 {
				b.ReportMetric(p99[name]/p99["alone"], "p99-ratio")
			}
		})
	}
}
