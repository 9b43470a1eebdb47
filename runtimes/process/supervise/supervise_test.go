package supervise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReadyAfterLaunch(t *testing.T) {
	supervised(t, nil, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		if st := s.View().State; st != Starting {
			t.Errorf("state is %q before the launch is over", st)
		}
		if u := running(t, s); u.n != 1 {
			t.Errorf("unit %d", u.n)
		}
		if v := s.View(); v.State != Ready || v.Starts != 1 || v.Restarts != 0 || v.LastEnd != nil {
			t.Errorf("view %+v", v)
		}
	})
}

func TestFirstCrashCostsNoPause(t *testing.T) {
	supervised(t, nil, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		u := running(t, s)
		time.Sleep(time.Second)
		at := time.Now()
		u.crash("signal: killed")
		if again := running(t, s); again.n != 2 {
			t.Fatalf("unit %d", again.n)
		}
		if took := time.Since(at); took != 50*time.Millisecond {
			t.Errorf("the next unit was there after %v", took)
		}
		v := s.View()
		if v.Restarts != 1 || v.LastEnd == nil || v.LastEnd.Cause != "signal: killed" || v.LastEnd.Uptime != time.Second {
			t.Errorf("view %+v, last end %+v", v, v.LastEnd)
		}
		if len(v.LastEnd.Lines) != 1 {
			t.Errorf("lines %q", v.LastEnd.Lines)
		}
	})
}

func TestPausesGrowAndCallsAreRefusedWithAHint(t *testing.T) {
	supervised(t, func(o *Options[*unit]) { o.Crashes = 100 }, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		var last time.Duration
		for i := range 12 {
			u := runningWithin(t, s, 2*time.Minute)
			u.crash("exit status 1")
			synctest.Wait()
			v := s.View()
			if i == 0 {
				continue
			}
			if v.State != Backoff {
				t.Fatalf("crash %d: state %q", i, v.State)
			}
			pause := time.Until(v.RetryAt)
			if pause < last || pause > time.Minute {
				t.Errorf("crash %d: pause %v after %v", i, pause, last)
			}
			last = pause
			var un *UnavailableError
			if _, err := s.Unit(t.Context()); pause > 2*time.Second && (!errors.As(err, &un) || un.RetryAfter != pause) {
				t.Errorf("crash %d: %v", i, err)
			}
		}
		if last != time.Minute {
			t.Errorf("the last pause is %v", last)
		}
	})
}

func TestSteadyServiceForgivesPausesNotCrashes(t *testing.T) {
	supervised(t, nil, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		for i := range 20 {
			u := runningWithin(t, s, time.Minute)
			time.Sleep(2*time.Minute + time.Duration(i)*time.Second)
			u.crash("exit status 1")
			synctest.Wait()
			if st := s.View().State; st != Starting {
				t.Fatalf("crash %d: %q", i, st)
			}
		}
	})
}

func TestCrashLoopIsQuarantinedUntilReset(t *testing.T) {
	supervised(t, nil, func(t *testing.T, p *program, s *Supervisor[*unit]) {
		for i := range 5 {
			runningWithin(t, s, time.Minute).crash(fmt.Sprintf("exit status %d", i))
			synctest.Wait()
		}
		v := s.View()
		if v.State != Quarantined || v.LastEnd.Cause != "exit status 4" {
			t.Fatalf("view %+v", v)
		}
		time.Sleep(time.Hour)
		var un *UnavailableError
		if _, err := s.Unit(t.Context()); !errors.As(err, &un) || un.State != Quarantined || un.RetryAfter != 0 {
			t.Fatalf("Unit: %v", err)
		}
		if n := len(p.launched); n != 5 {
			t.Errorf("%d launches", n)
		}
		s.Reset()
		synctest.Wait()
		if u := running(t, s); u.n != 6 {
			t.Errorf("unit %d", u.n)
		}
		// The slate is clean: one more crash costs nothing.
		u := running(t, s)
		time.Sleep(time.Second)
		u.crash("exit status 9")
		synctest.Wait()
		if st := s.View().State; st != Starting {
			t.Errorf("state %q", st)
		}
	})
}

func TestFailedStartsAreQuarantinedToo(t *testing.T) {
	supervised(t, func(o *Options[*unit]) {
		o.Launch = func(context.Context) (*unit, error) { return nil, errors.New("digest is wrong") }
	}, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		if v, err := s.Settled(t.Context()); err != nil || v.State != Backoff || v.LastEnd.Uptime != 0 {
			t.Errorf("after the first: %+v %v", v, err)
		}
		time.Sleep(5 * time.Minute)
		if v, err := s.Settled(t.Context()); err != nil || v.State != Quarantined || v.LastEnd.Cause != "digest is wrong" || v.Starts != 0 {
			t.Errorf("view %+v", v)
		}
	})
}

func TestFrozenUnitIsReplaced(t *testing.T) {
	supervised(t, nil, func(t *testing.T, p *program, s *Supervisor[*unit]) {
		u := running(t, s)
		u.frozen.Store(true)
		at := time.Now()
		time.Sleep(8 * time.Second)
		if v := s.View(); v.State != Degraded || v.Cause == "" {
			t.Errorf("after one missed check: %+v", v)
		}
		<-u.done
		if took := time.Since(at); took > 25*time.Second {
			t.Errorf("it was ended after %v", took)
		}
		if again := running(t, s); again.n != 2 || p.living() != 1 {
			t.Errorf("unit %d, %d live", again.n, p.living())
		}
	})
}

func TestUnreadyUnitServes(t *testing.T) {
	supervised(t, nil, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		u := running(t, s)
		u.reason.Store("the engine does not answer")
		time.Sleep(time.Hour)
		if v := s.View(); v.State != Degraded || v.Cause != "the engine does not answer" {
			t.Errorf("view %+v", v)
		}
		if running(t, s) != u {
			t.Error("another unit")
		}
		u.reason.Store("")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if v := s.View(); v.State != Ready || v.Restarts != 0 {
			t.Errorf("view %+v", v)
		}
	})
}

// Whether a unit is ready is asked as soon as it runs, and often until it is.
func TestReadinessIsToldAtOnce(t *testing.T) {
	reason := "the engine starts"
	supervised(t, func(o *Options[*unit]) {
		launch := o.Launch
		o.Launch = func(ctx context.Context) (*unit, error) {
			u, err := launch(ctx)
			if err == nil {
				u.reason.Store(reason)
			}
			return u, err
		}
	}, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		u := running(t, s)
		synctest.Wait()
		if v := s.View(); v.State != Degraded || v.Cause != reason {
			t.Errorf("right after the start: %+v", v)
		}
		time.Sleep(time.Hour)
		u.reason.Store("")
		at := time.Now()
		for s.View().State != Ready {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(at); took > 251*time.Millisecond {
			t.Errorf("ready was told after %v", took)
		}
	})
}

// What somebody else heard of a unit is told without a check.
func TestHeard(t *testing.T) {
	supervised(t, func(o *Options[*unit]) { o.CheckEvery, o.UnreadyEvery = time.Hour, time.Hour }, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		u := running(t, s)
		synctest.Wait()
		for _, h := range []Health{{Reason: "no engine"}, {Ready: true}, {Reason: "again"}} {
			s.Heard(t.Context(), u, h)
			if v := s.View(); (v.State == Ready) != h.Ready || v.Cause != h.Reason {
				t.Errorf("heard %+v, view %+v", h, v)
			}
		}
		u.crash("gone")
		again := running(t, s)
		synctest.Wait()
		s.Heard(t.Context(), u, Health{Reason: "of one that is over"})
		if v := s.View(); v.State != Ready || running(t, s) != again {
			t.Errorf("view %+v", v)
		}
		s.Heard(t.Context(), again, Health{Reason: "waits"})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.Heard(ctx, again, Health{Ready: true}) // returns, whatever it did
	})
}

func TestCloseInEveryState(t *testing.T) {
	for _, after := range []time.Duration{0, 20 * time.Millisecond, 49 * time.Millisecond, 50 * time.Millisecond, time.Second, 5 * time.Second, time.Hour} {
		t.Run(after.String(), func(t *testing.T) {
			supervised(t, nil, func(*testing.T, *program, *Supervisor[*unit]) { time.Sleep(after) })
		})
	}
	t.Run("backoff", func(t *testing.T) {
		supervised(t, func(o *Options[*unit]) {
			o.Launch = func(context.Context) (*unit, error) { return nil, errors.New("no") }
		}, func(*testing.T, *program, *Supervisor[*unit]) { time.Sleep(time.Second) })
	})
	t.Run("frozen", func(t *testing.T) {
		supervised(t, nil, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
			running(t, s).frozen.Store(true)
			at := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := s.Close(ctx); err != nil {
				t.Error(err)
			}
			if took := time.Since(at); took != time.Second {
				t.Errorf("it took %v", took)
			}
		})
	})
}

func TestWaitersEndWithTheirContext(t *testing.T) {
	supervised(t, func(o *Options[*unit]) {
		o.Launch = func(ctx context.Context) (*unit, error) { <-ctx.Done(); return nil, ctx.Err() }
	}, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Unit(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// A thousand crashes at any moment, with callers all the time: no call gets a
// unit that had ended before it asked, and nothing is left.
func TestThousandCrashes(t *testing.T) {
	supervised(t, func(o *Options[*unit]) { o.Crashes = 1 << 30; o.Jitter = rand.Float64 }, func(t *testing.T, p *program, s *Supervisor[*unit]) {
		ctx, cancel := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for ctx.Err() == nil {
					asked := time.Now()
					u, err := s.Unit(ctx)
					var un *UnavailableError
					switch {
					case err == nil && p.living() > 1:
						t.Errorf("two units live, one is %d", u.n)
					case errors.As(err, &un) && un.RetryAfter <= 2*time.Second:
						t.Errorf("refused for a pause of %v", un.RetryAfter)
					case err == nil && time.Since(asked) > 10*time.Second:
						t.Errorf("a call waited %v", time.Since(asked))
					}
					time.Sleep(time.Duration(rand.Int64N(int64(time.Second))))
				}
			})
		}
		used := func() (goroutines int, heap uint64) {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return runtime.NumGoroutine(), m.HeapAlloc
		}
		var goroutines int
		var heap uint64
		for i := range 1000 {
			if i == 100 {
				goroutines, heap = used()
			}
			u := runningWithin(t, s, time.Hour)
			time.Sleep(time.Duration(rand.Int64N(int64(3 * time.Second))))
			u.crash("exit status 2")
		}
		if n, h := used(); n > goroutines+4 || h > heap+1<<20 {
			t.Errorf("after 100 crashes %d goroutines and %d bytes, after 1000 %d and %d", goroutines, heap, n, h)
		}
		cancel()
		callers.Wait()
		if v := s.View(); len(p.launched) < 1000 || v.Restarts < 999 {
			t.Errorf("%d launches, view %+v", len(p.launched), v)
		}
	})
}

// What cannot succeed is not tried again until it is said to have changed, however
// long that takes, and is never too often.
func TestImpossible(t *testing.T) {
	var launches atomic.Int32
	var changed atomic.Bool
	supervised(t, func(o *Options[*unit]) {
		good := o.Launch
		o.Launch = func(ctx context.Context) (*unit, error) {
			launches.Add(1)
			if !changed.Load() {
				return nil, fmt.Errorf("launch: %w", &ImpossibleError{errors.New("wrong digest"), changed.Load})
			}
			return good(ctx)
		}
	}, func(t *testing.T, _ *program, s *Supervisor[*unit]) {
		if v, err := s.Settled(t.Context()); err != nil || v.State != Failed || v.Cause != "launch: wrong digest" || v.LastEnd == nil {
			t.Fatalf("view %+v, %v", v, err)
		}
		time.Sleep(24 * time.Hour)
		var un *UnavailableError
		if _, err := s.Unit(t.Context()); !errors.As(err, &un) || un.State != Failed || un.RetryAfter != 0 {
			t.Errorf("Unit: %v", err)
		}
		if n := launches.Load(); n != 1 {
			t.Errorf("%d launches of what cannot succeed", n)
		}
		for range 10 {
			s.Reset()
			synctest.Wait()
		}
		if v := s.View(); v.State != Failed || launches.Load() != 11 {
			t.Errorf("after resets: %+v, %d launches", v, launches.Load())
		}
		changed.Store(true)
		time.Sleep(6 * time.Second)
		running(t, s)
	})
}
