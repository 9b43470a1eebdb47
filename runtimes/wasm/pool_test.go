package wasm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gated loads an echo whose calls keep their instance until open is called, and
// reports each on the channel.
func gated(t *testing.T, limits Limits) (m *Module, entered chan struct{}, open func()) {
	t.Helper()
	entered, held := make(chan struct{}, 16), make(chan struct{})
	m = mustLoad(t, Spec{Name: "gated", Module: newGuest(nil).build(), Limits: limits}, gate{fuelStop{}, entered, held})
	open = sync.OnceFunc(func() { close(held) })
	t.Cleanup(open) // before the module is closed
	return m, entered, open
}

// gate holds calls, not starts, at the end of guest code.
type gate struct {
	stopper
	entered, gate chan struct{}
}

func (g gate) disarm(in *instance) error {
	if in.calls > 0 {
		g.entered <- struct{}{}
		<-g.gate
	}
	return g.stopper.disarm(in)
}

// occupied is a module whose only instance has a call, which is told of on first, until open.
func occupied(t *testing.T, wait time.Duration) (m *Module, first <-chan error, open func()) {
	t.Helper()
	m, entered, open := gated(t, Limits{Instances: 1, Wait: wait})
	done := make(chan error, 1)
	go func() {
		_, err := m.Call(context.Background(), opEcho, nil, nil)
		done <- err
	}()
	<-entered
	return m, done, open
}

func TestBusyCanceledAndClosed(t *testing.T) {
	m, _, _ := occupied(t, 20*time.Millisecond)
	_, err := m.Call(context.Background(), opEcho, nil, nil)
	if !errors.Is(err, ReasonBusy) || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no instance of 1 came free within 20ms") {
		t.Errorf("busy: %v", err)
	}

	m, first, open := occupied(t, time.Hour) // only its context ends a wait
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if _, err = m.Call(ctx, opEcho, nil, nil); !errors.Is(err, ReasonBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	if _, err = m.Call(ctx, opEcho, nil, nil); !errors.Is(err, ReasonBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline while waiting: %v", err)
	}
	gone, leave := context.WithCancelCause(context.Background())
	leave(errors.New("client left"))
	if _, err = m.Call(gone, opEcho, nil, nil); !errors.Is(err, ReasonCanceled) || !strings.HasSuffix(err.Error(), "canceled: client left") {
		t.Errorf("canceled: %v", err)
	}

	// Close gives up on the call in progress, but not on freeing everything.
	ctx, cancel = context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := m.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if _, err := m.Call(context.Background(), opEcho, nil, nil); !errors.Is(err, ReasonClosed) {
		t.Errorf("closed: %v", err)
	}
	open()
	if err := <-first; err != nil {
		t.Errorf("the call in progress failed: %v", err)
	}
	mustClose(t, m)
	mustClose(t, m)
}

func TestWaitersAreReleasedByClose(t *testing.T) {
	m, entered, open := gated(t, Limits{Instances: 1, Wait: time.Hour})
	go func() { _, _ = m.Call(context.Background(), opEcho, nil, nil) }()
	<-entered
	waiter := make(chan error, 1)
	go func() {
		_, err := m.Call(context.Background(), opEcho, nil, nil)
		waiter <- err
	}()
	for m.Stats().Waits == 0 {
		runtime.Gosched() // the waiter is counted just before it waits
	}
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.Close(canceled)
	if err := <-waiter; !errors.Is(err, ReasonClosed) {
		t.Errorf("got %v", err)
	}
	open()
}

// A caller that leaves while guest code runs costs nothing: the call ends well and
// the instance stays.
func TestCancelDuringCallKeepsTheInstance(t *testing.T) {
	m, entered, open := gated(t, Limits{Instances: 1})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := m.Call(ctx, opEcho, []byte("x"), nil)
		done <- err
	}()
	<-entered
	cancel()
	open()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := m.Stats(); s.Discards != 0 || s.Idle != 1 {
		t.Errorf("stats %+v", s)
	}
}

// TestHammer has 16 callers on 4 instances, a third of the calls trapping, and
// checks that every reply belongs to its call and that the pool is whole at the end.
func TestHammer(t *testing.T) {
	g := newGuest(whenOp(opEvil, code(opUnreachable)))
	m := mustLoad(t, Spec{Name: "hammer", Module: g.build(), Limits: Limits{Instances: 4, Wait: time.Minute, Timeout: time.Minute}}, fuelStop{})
	var traps atomic.Uint64
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			var out []byte
			for i := range 60 {
				in := fmt.Sprintf("%d.%d", w, i)
				if i%3 == w%3 {
					if _, err := m.Call(context.Background(), opEvil, []byte(in), nil); !errors.Is(err, ReasonTrap) {
						t.Errorf("got %v", err)
					}
					traps.Add(1)
					continue
				}
				var err error
				out, err = m.Call(context.Background(), opEcho, []byte(in), out[:0])
				if err != nil || string(out) != in {
					t.Errorf("%s: got %q, %v", in, out, err)
				}
			}
		})
	}
	wg.Wait()
	// The pool is whole again: four calls can hold an instance at once.
	for range 4 {
		in := <-m.idle
		defer func() { m.idle <- in }()
	}
	if s := m.Stats(); s.Discards != traps.Load() || s.Refills != s.Discards || s.Calls != 16*60 || s.Failures[ReasonTrap] != traps.Load() {
		t.Errorf("stats %+v, %d traps", s, traps.Load())
	}
}

// TestRefillsArePaced asks a module that always traps as often as it can for ten
// seconds of a simulated clock: refills take no time there, so they come once per
// least pause and no faster.
func TestRefillsArePaced(t *testing.T) {
	g := newGuest(code(opUnreachable))
	module := g.build()
	synctest.Test(t, func(t *testing.T) {
		m, err := load(context.Background(), Spec{Name: "doomed", Module: module, Limits: Limits{Instances: 2, Wait: time.Hour}}, noStop{})
		if err != nil {
			t.Fatal(err)
		}
		defer mustClose(t, m)
		const span = 500 * time.Millisecond
		began := time.Now()
		for time.Since(began) < span {
			if _, err := m.Call(context.Background(), opEcho, nil, nil); !errors.Is(err, ReasonTrap) {
				t.Fatal(err)
			}
		}
		if most := uint64(span/leastPause) + 2; m.Stats().Refills > most {
			t.Errorf("%d refills in %v, want at most %d", m.Stats().Refills, span, most)
		}
	})
}

// TestRefillRetries breaks what new instances start with and repairs it later: the
// pool is empty meanwhile and whole afterwards.
func TestRefillRetries(t *testing.T) {
	g := newGuest(code(whenOp(opEvil, code(opUnreachable)), whenOp(OpConfigure, code(packed(0, 0, false), opReturn))))
	module := g.build()
	synctest.Test(t, func(t *testing.T) {
		broken := &brokenStop{stopper: noStop{}}
		m, err := load(context.Background(), Spec{Name: "ill", Module: module, Limits: Limits{Instances: 1, Wait: time.Minute}}, broken)
		if err != nil {
			t.Fatal(err)
		}
		defer mustClose(t, m)
		broken.on.Store(true)
		_, err = m.Call(context.Background(), opEvil, nil, nil)
		if !errors.Is(err, ReasonTrap) {
			t.Fatal(err)
		}
		// 100 ms, 200 ms, … up to 5 s between attempts.
		if _, err = m.Call(context.Background(), opEcho, nil, nil); !errors.Is(err, ReasonBusy) {
			t.Errorf("got %v", err)
		}
		if n := m.Stats().RefillFailures; n < 10 || n > 20 {
			t.Errorf("%d attempts in a minute", n)
		}
		broken.on.Store(false)
		if got := mustCall(t, m, opEcho, "well"); got != "well" {
			t.Errorf("got %q", got)
		}
	})
}

// brokenStop fails every start while it is on.
type brokenStop struct {
	stopper
	on atomic.Bool
}

func (b *brokenStop) disarm(in *instance) error {
	if b.on.Load() && in.calls == 0 {
		return context.DeadlineExceeded
	}
	return b.stopper.disarm(in)
}

// TestWornInstancesAreReplaced has a guest whose memory grows a page with each
// call and never shrinks. No call may fail for it.
func TestWornInstancesAreReplaced(t *testing.T) {
	g := newGuest(code(i32Const(1), opMemory, 0, i32Const(-1), opI32Eq, opIf, blockVoid, opUnreachable, opEnd))
	m := mustLoad(t, Spec{Name: "leaky", Module: g.build(), Limits: Limits{Instances: 1, MemoryBytes: 512 * pageBytes, Timeout: time.Minute}}, fuelStop{})
	for range 2000 {
		mustCall(t, m, opEcho, "")
	}
	s := m.Stats()
	// Replaced at three quarters of 512 pages: every 384 calls or so.
	if s.Recycled != 5 || s.Discards != 0 || len(s.Failures) != 0 {
		t.Errorf("stats %+v", s)
	}
	if most := int64(400 * pageBytes); s.MemoryHighBytes > most || s.MemoryHighBytes < most/2 {
		t.Errorf("memory high %d", s.MemoryHighBytes)
	}
}

// A module that needs most of its limit from the start is not replaced for it.
func TestLargeInstancesAreNotWorn(t *testing.T) {
	g := newGuest(nil)
	g.pages = 15
	m := mustLoad(t, Spec{Name: "large", Module: g.build(), Limits: Limits{Instances: 1, MemoryBytes: 16 * pageBytes}}, fuelStop{})
	for range wornCalls + 10 {
		mustCall(t, m, opEcho, "")
	}
	if s := m.Stats(); s.Recycled != 0 {
		t.Errorf("stats %+v", s)
	}
}
