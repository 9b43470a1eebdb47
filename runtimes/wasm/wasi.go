package wasm

import (
	"crypto/rand"
	"io"
	"math"
	"time"

	"github.com/tetratelabs/wazero"
)

// fixedTime is the wall clock of deterministic modules.
var fixedTime = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// stderrBytes is how much of what a guest prints to standard error in one call is
// kept, to explain a trap: runtimes print the reason before they end the instance.
const stderrBytes = 1 << 10

// moduleConfig is the world of one instance: no name, no start functions, standard
// streams that are empty or lead nowhere, no arguments, environment or files.
func (in *instance) moduleConfig() wazero.ModuleConfig {
	c := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithStderr(&in.stderr).WithNanosleep(in.sleep)
	if in.m.spec.Deterministic {
		return c.WithRandSource(zeros{}).WithNanotime(in.countingClock, 1).
			WithWalltime(func() (int64, int32) { return fixedTime.Unix(), 0 }, 1)
	}
	return c.WithRandSource(rand.Reader).WithSysNanotime().WithSysWalltime()
}

// countingClock is the monotonic clock of deterministic modules: a microsecond
// passes with each look at it, since programs wait for time to pass.
func (in *instance) countingClock() int64 {
	in.counted += int64(time.Microsecond)
	return in.counted
}

// sleep is how a guest waits. All its waits within one call together last no
// longer than the call may, and end when the call is stopped; what is left of a
// longer one is skipped, and the guest ends as any other that took too long.
func (in *instance) sleep(ns int64) {
	if in.m.spec.Deterministic {
		if ns > 0 && in.counted < math.MaxInt64-ns {
			in.counted += ns
		}
		return
	}
	d := min(time.Duration(ns), in.sleepLeft)
	if d <= 0 {
		return
	}
	in.sleepLeft -= d
	t := time.NewTimer(d)
	defer t.Stop()
	var stopped <-chan struct{}
	if in.running != nil {
		stopped = in.running.Done()
	}
	select {
	case <-t.C:
	case <-stopped:
	}
}

// zeros is the randomness of deterministic modules.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

var _ io.Reader = zeros{}

// head keeps the first bytes written to it, which is where a runtime says why.
type head struct{ buf []byte }

func (h *head) Write(p []byte) (int, error) {
	h.buf = append(h.buf, p[:min(len(p), stderrBytes-len(h.buf))]...)
	return len(p), nil
}
