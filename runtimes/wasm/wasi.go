package wasm

import (
	"crypto/rand"
	"io"
	"math"
	"runtime"
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
		WithStdout(stream{in, io.Discard}).WithStderr(stream{in, &in.stderr}).
		WithRandSource(randomness{in}).WithNanosleep(in.sleep)
	if in.m.spec.Deterministic {
		return c.WithNanotime(in.countingClock, 1).
			WithWalltime(func() (int64, int32) { return fixedTime.Unix(), 0 }, 1)
	}
	return c.WithSysNanotime().WithSysWalltime()
}

// countingClock is the monotonic clock of deterministic modules: a microsecond
// passes with each look at it, since programs wait for time to pass.
func (in *instance) countingClock() int64 {
	in.counted += int64(time.Microsecond)
	return in.counted
}

// sleep is how a guest waits. A wait that would last longer than guest code may run
// ends when that does, and the guest with it.
func (in *instance) sleep(ns int64) {
	if in.m.spec.Deterministic {
		if ns > 0 && in.counted < math.MaxInt64-ns {
			in.counted += ns
		}
		return
	}
	d := time.Duration(ns)
	if in.deadline > 0 {
		d = min(d, in.deadline-in.m.now())
	}
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-in.running.Done():
		}
	}
	in.look()
}

// randomBytes is how much randomness is made between two looks at the clock. A
// guest can ask for as much as it has memory.
const randomBytes = 64 << 10

// randomness is the source of an instance: zeros for deterministic modules.
type randomness struct{ in *instance }

func (r randomness) Read(p []byte) (int, error) {
	for at := 0; at < len(p); at += randomBytes {
		part := p[at:min(at+randomBytes, len(p))]
		if r.in.m.spec.Deterministic {
			clear(part)
		} else {
			_, _ = rand.Read(part) // crypto/rand.Read never fails
		}
		runtime.Gosched()
		r.in.look()
	}
	return len(p), nil
}

// stream is a standard stream that a guest writes to. One call of the guest can
// make millions of writes.
type stream struct {
	in *instance
	to io.Writer
}

func (s stream) Write(p []byte) (int, error) {
	s.in.look()
	return s.to.Write(p)
}

// head keeps the first bytes written to it, which is where a runtime says why.
type head struct{ buf []byte }

func (h *head) Write(p []byte) (int, error) {
	h.buf = append(h.buf, p[:min(len(p), stderrBytes-len(h.buf))]...)
	return len(p), nil
}
