package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// kill kills the process of the hostile plugin and returns it.
func (f faulty) kill() *unit {
	f.t.Helper()
	u, err := f.h.backends.line("hostile").program().sup.Unit(f.t.Context())
	if err == nil {
		err = syscall.Kill(u.proc.PID(), syscall.SIGKILL)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return u
}

// Whoever is answered that a plugin is away is told when to ask again, whatever moment
// of its end or of its next start it is.
func TestCallsOfAKilledPluginSayWhenToAskAgain(t *testing.T) {
	f := openFaulty(t, quick, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var callers sync.WaitGroup
	var answered, failed atomic.Int64
	for range 16 {
		callers.Go(func() {
			for ctx.Err() == nil {
				err := f.get(context.Background(), "hostile", "x")
				if err == nil {
					answered.Add(1)
					continue
				}
				failed.Add(1)
				e, ok := errors.AsType[*backend.Error](err)
				if !ok || e.Kind != backend.KindUnavailable || e.RetryAfter <= 0 || backend.ProvesGone(err) {
					t.Errorf("a call failed with %#v", err)
					return
				}
			}
		})
	}
	for range 20 {
		<-f.kill().Done()
		for n := answered.Load(); answered.Load() == n && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	cancel()
	callers.Wait()
	t.Logf("%d calls, of which %d failed", answered.Load()+failed.Load(), failed.Load())
}

// A loan outlives its process: a call that was not sent waits for the next one.
func TestLoansWaitForTheNextProcess(t *testing.T) {
	f := openFaulty(t, quick, nil)
	target, err := f.h.Target(t.Context(), "hostile")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Release()
	for range 3 {
		u := f.kill()
		for u.Serving() {
			time.Sleep(time.Millisecond)
		}
		if _, err := target.Backend.Get(t.Context(), backend.Ref{Config: "hostile", ID: "x"}); err != nil {
			t.Errorf("a call after the end of the process: %v", err)
		}
	}
}
