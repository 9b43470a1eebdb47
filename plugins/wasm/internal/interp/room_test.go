package interp

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestOthersFindRoom: a host lets one tenant have two runs under way for each processor
// by default. When those take their time, a program of somebody else begins all the same.
func TestOthersFindRoom(t *testing.T) {
	need(t, "python")
	e := newEngine(t, Config{Parked: -1})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	tenant := 2 * runtime.GOMAXPROCS(0)
	started := make(chan struct{}, tenant)
	var all sync.WaitGroup
	for range tenant {
		s := newSandbox(t)
		p := s.program("python", "main.py", "import time\nprint('on', flush=True)\ntime.sleep(600)")
		p.Stdout = signal(started)
		all.Go(func() { s.on(ctx, e, p) })
	}
	for range tenant {
		select {
		case <-started:
		case <-time.After(2 * time.Minute):
			t.Fatal("the tenant's own programs do not begin")
		}
	}
	s := newSandbox(t)
	if !e.slots.TryAcquire(1) {
		t.Fatal("one tenant's programs take every place")
	}
	e.slots.Release(1)
	s.expect(s.on(ctx, e, s.program("python", "main.py", "print('other')")), 0, "other\n", "")
	stop()
	all.Wait()
}

// signal is a writer that tells of each write.
type signal chan<- struct{}

func (s signal) Write(p []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(p), nil
}
