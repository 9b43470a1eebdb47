package handoff

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// thing is what a slot holds: it knows whether it was ended.
type thing struct {
	ended atomic.Int32
	bad   atomic.Bool
}

func end(_ context.Context, t *thing) error {
	t.ended.Add(1)
	return nil
}

func next(v *thing) func(context.Context) (*thing, error) {
	return func(context.Context) (*thing, error) { return v, nil }
}

func mustClose(t *testing.T, s *Slot[*thing]) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func acquire(t *testing.T, s *Slot[*thing]) Ref[*thing] {
	t.Helper()
	r, err := s.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNoCallFindsAnEndedGeneration(t *testing.T) {
	first := &thing{}
	s := New(first, end)
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var calls atomic.Int64
	for i := range 32 {
		workers.Go(func() {
			for ctx.Err() == nil {
				r, err := s.Acquire()
				if err != nil {
					t.Errorf("the slot was empty: %v", err)
					return
				}
				if i%8 == 0 {
					r = r.Pin()
				}
				if r.Value().ended.Load() != 0 {
					t.Error("a call began on an ended generation")
				}
				if i%8 != 1 {
					time.Sleep(time.Millisecond)
				}
				if r.Value().ended.Load() != 0 {
					t.Error("a generation was ended under a call")
				}
				calls.Add(1)
				r.Release()
			}
		})
	}
	all := []*thing{first}
	for i := range 100 {
		v := &thing{}
		v.bad.Store(i%5 == 4)
		all = append(all, v)
		r, err := s.Swap(ctx, Swap[*thing]{
			Next: next(v), Watch: 5 * time.Millisecond, Every: time.Millisecond,
			Failing: func(v *thing) error {
				if v.bad.Load() {
					return errors.New("bad")
				}
				return nil
			},
		})
		want := Switched
		if v.bad.Load() {
			want = RolledBack
		}
		if err != nil || r.Outcome != want {
			t.Fatalf("swap %d: %+v %v", i, r, err)
		}
	}
	cancel()
	workers.Wait()
	mustClose(t, s)
	for i, v := range all {
		if n := v.ended.Load(); n != 1 {
			t.Errorf("generation %d was ended %d times", i+1, n)
		}
	}
	t.Logf("%d calls", calls.Load())
}

func TestRefusedSwapChangesNothing(t *testing.T) {
	s := New(&thing{}, end)
	defer mustClose(t, s)
	r, err := s.Swap(t.Context(), Swap[*thing]{Next: func(context.Context) (*thing, error) {
		return nil, errors.New("the probe failed")
	}})
	if err != nil || r.Outcome != Refused || r.Reason != "the probe failed" || r.To != 0 {
		t.Errorf("%+v %v", r, err)
	}
	ref := acquire(t, s)
	defer ref.Release()
	if ref.Generation() != 1 || ref.Value().ended.Load() != 0 {
		t.Errorf("generation %d", ref.Generation())
	}
}

// Whoever asked for a swap may go: what serves is watched all the same.
func TestWatchOutlivesTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, v := &thing{}, &thing{}
		s := New(first, end)
		ctx, cancel := context.WithCancel(t.Context())
		call := acquire(t, s)
		reported := make(chan Report)
		go func() {
			r, err := s.Swap(ctx, Swap[*thing]{Next: next(v), Watch: time.Minute, Failing: func(v *thing) error {
				if v.bad.Load() {
					return errors.New("bad")
				}
				return nil
			}})
			if err != nil {
				t.Error(err)
			}
			reported <- r
		}()
		time.Sleep(time.Second)
		cancel()
		time.Sleep(10 * time.Second)
		v.bad.Store(true)
		if r := <-reported; r.Outcome != RolledBack {
			t.Errorf("%+v", r)
		}
		ref := acquire(t, s)
		if ref.Value() != first {
			t.Error("the version that failed serves")
		}
		ref.Release()
		call.Release()
		mustClose(t, s)
	})
}

func TestAcceptEndsTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&thing{}, end)
		brief := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return s.Accept(ctx)
		}
		if brief() {
			t.Error("a swap that is none was accepted")
		}
		for range 2 { // what was accepted says nothing about the next
			v := &thing{}
			reported := make(chan Report)
			began := time.Now()
			go func() {
				r, err := s.Swap(t.Context(), Swap[*thing]{Next: next(v), Watch: time.Hour, Failing: func(*thing) error { return nil }})
				if err != nil {
					t.Error(err)
				}
				reported <- r
			}()
			time.Sleep(time.Minute)
			if !brief() {
				t.Error("nobody watches")
			}
			if r := <-reported; r.Outcome != Switched || r.Reason != "the watch was cut short: accepted" || time.Since(began) > 2*time.Minute {
				t.Errorf("%+v after %v", r, time.Since(began))
			}
		}
		mustClose(t, s)
	})
}

// What closes neither waits for the end of a watch nor for calls that go on.
func TestSettleCutsASwapShort(t *testing.T) {
	for name, w := range map[string]Swap[*thing]{
		"watch": {Watch: time.Hour, Failing: func(*thing) error { return nil }},
		"drain": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(&thing{}, end)
				call := acquire(t, s)
				v := &thing{}
				w.Next = next(v)
				reported := make(chan Report)
				began := time.Now()
				go func() {
					r, err := s.Swap(t.Context(), w)
					if err != nil {
						t.Error(err)
					}
					reported <- r
				}()
				time.Sleep(time.Second)
				s.Settle()
				if r := <-reported; r.Outcome != Switched || r.Left.Calls != 1 || (r.Reason != "") != (w.Watch > 0) {
					t.Errorf("%+v", r)
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("it took %v", took)
				}
				if _, err := s.Swap(t.Context(), Swap[*thing]{Next: next(&thing{})}); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
				ref := acquire(t, s)
				if ref.Value() != v {
					t.Error("another version serves")
				}
				ref.Release()
				call.Release()
				mustClose(t, s)
			})
		})
	}
}

func TestPinsOutliveTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &thing{}
		s := New(old, end)
		pin := acquire(t, s).Pin()
		call := acquire(t, s)
		go func() {
			time.Sleep(300 * time.Millisecond)
			call.Release()
		}()
		r, err := s.Swap(t.Context(), Swap[*thing]{Next: next(&thing{})})
		if err != nil || r.Outcome != Switched || r.Left.Pins != 1 || r.Left.Calls != 0 {
			t.Fatalf("%+v %v", r, err)
		}
		if r.Drain < 300*time.Millisecond || r.Drain > 305*time.Millisecond {
			t.Errorf("drained in %v", r.Drain)
		}
		time.Sleep(time.Hour)
		if old.ended.Load() != 0 {
			t.Fatal("the generation of a pin was ended")
		}
		if u := s.Uses(); len(u) != 2 || u[1].Pins != 1 {
			t.Errorf("uses %+v", u)
		}
		pin.Release()
		synctest.Wait()
		if old.ended.Load() != 1 || len(s.Uses()) != 1 {
			t.Errorf("the old generation was ended %d times; uses %+v", old.ended.Load(), s.Uses())
		}
		mustClose(t, s)
	})
}

func TestOneSwapAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&thing{}, end)
		began := make(chan struct{})
		go func() {
			_, _ = s.Swap(t.Context(), Swap[*thing]{Next: func(context.Context) (*thing, error) {
				close(began)
				time.Sleep(time.Second)
				return &thing{}, nil
			}})
		}()
		<-began
		if _, err := s.Swap(t.Context(), Swap[*thing]{Next: next(&thing{})}); !errors.Is(err, ErrSwapping) {
			t.Error(err)
		}
		mustClose(t, s) // waits for the swap
		if _, err := s.Swap(t.Context(), Swap[*thing]{Next: next(&thing{})}); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if _, err := s.Acquire(); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

func TestCloseLosesPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &thing{}
		s := New(v, func(ctx context.Context, v *thing) error {
			if ctx.Err() == nil {
				t.Error("the end is not forced")
			}
			return errors.Join(end(ctx, v), errors.New("left a file"))
		})
		ref := acquire(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Close(ctx); err == nil || err.Error() != "left a file" {
			t.Error(err)
		}
		if v.ended.Load() != 1 {
			t.Error("not ended")
		}
		ref.Release()
	})
}

func TestBorrowingAllocatesNothing(t *testing.T) {
	s := New(&thing{}, end)
	defer mustClose(t, s)
	if n := testing.AllocsPerRun(100, func() { acquire(t, s).Release() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The alternative is what most hosts do: a mutex around the value.
func BenchmarkAcquire(b *testing.B) {
	b.Run("slot", func(b *testing.B) {
		s := New(&thing{}, end)
		defer s.Close(b.Context())
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				r, _ := s.Acquire()
				r.Release()
			}
		})
	})
	b.Run("mutex", func(b *testing.B) {
		var mu sync.Mutex
		refs := 0
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				mu.Lock()
				refs++
				mu.Unlock()
				mu.Lock()
				refs--
				mu.Unlock()
			}
		})
	})
}
