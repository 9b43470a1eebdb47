package exec

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// One tenant's flood keeps what another waits for within a small multiple of what it
// waits for alone. The programs only sleep, so that the machine's load has little to
// say, and a queue of first come first served would make it some twenty times.
func TestAFloodKeepsToItself(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Running, o.TenantRunning, o.Waiting, o.TenantWaiting = 2, 1, 200, 60
	})
	measure := func() time.Duration {
		var all []time.Duration
		for range 15 {
			began := time.Now()
			if _, err := r.Run(t.Context(), "quiet", &CodeRun{Lang: "bash", Code: "sleep 0.05"}); err != nil {
				t.Fatal(err)
			}
			all = append(all, time.Since(began))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	alone := measure()
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for range 40 {
		flood.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.Run(ctx, "flood", &CodeRun{Lang: "bash", Code: "sleep 0.05"}); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	waitFor(t, func() bool { return r.queue.Stats().Waiting > 30 })
	flooded := measure()
	stop()
	flood.Wait()
	t.Logf("alone %v, beside a flood %v", alone, flooded)
	if flooded > 5*alone {
		t.Errorf("a run takes %v beside a flood and %v alone", flooded, alone)
	}
}
