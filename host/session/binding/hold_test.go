package binding_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/memory"
)

var key = binding.Key{Tenant: "acme", Session: "s"}

// outage is a store in memory, with the default lease of a minute, that can be cut off.
func outage(t *testing.T) (s *binding.Store, down *atomic.Bool, renewals *atomic.Int32) {
	t.Helper()
	down, renewals = new(atomic.Bool), new(atomic.Int32)
	s, err := binding.New(&bindingtest.Faulty{
		Engine: memory.NewEngine(memory.Options{}),
		Before: func(ctx context.Context, op string) error {
			if op == "Renew" {
				renewals.Add(1)
			}
			if down.Load() {
				<-ctx.Done() // no answer
				return ctx.Err()
			}
			return nil
		},
	}, binding.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s, down, renewals
}

// A lock is renewed for as long as it is held, and given up some time before its lease
// ends when renewals are not answered.
func TestLockIsRenewedAndGivenUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, down, renewals := outage(t)
		err := s.WithLifecycleLock(t.Context(), key, func(ctx context.Context, own *binding.Ownership) error {
			time.Sleep(time.Hour)
			if err := own.Err(); err != nil {
				t.Errorf("after an hour: %v", err)
			}
			if n := renewals.Load(); n < 170 || n > 190 {
				t.Errorf("%d renewals in an hour, want one each 20s", n)
			}
			down.Store(true)
			cut := time.Now()
			<-own.Context().Done()
			if took := time.Since(cut); took < 30*time.Second || took > 50*time.Second {
				t.Errorf("ownership lasted %v without an answer, want 30s to 50s of a lease of 60s", took)
			}
			down.Store(false)
			if err := own.Verify(ctx); !errors.Is(err, binding.ErrOwnershipLost) {
				t.Errorf("Verify = %v: what was lost came back", err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("WithLifecycleLock = %v", err)
		}
		before := renewals.Load()
		time.Sleep(time.Hour)
		if renewals.Load() != before {
			t.Error("a released lock is still renewed")
		}
	})
}

// A renewal that hangs and heeds no deadline does not keep its owner believing.
func TestLockIsGivenUpBesideAHangingRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		s, err := binding.New(&bindingtest.Faulty{
			Engine: memory.NewEngine(memory.Options{}),
			Before: func(_ context.Context, op string) error {
				if op == "Renew" {
					<-hang
				}
				return nil
			},
		}, binding.Options{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = s.WithLifecycleLock(t.Context(), key, func(_ context.Context, own *binding.Ownership) error {
			<-own.Context().Done()
			return own.Err()
		})
		if took := time.Since(began); !errors.Is(err, binding.ErrOwnershipLost) || took > 50*time.Second {
			t.Errorf("%v after %v, want ErrOwnershipLost after 50s at most", err, took)
		}
		close(hang)
		synctest.Wait()
	})
}

// A short outage costs nothing.
func TestLockSurvivesAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, down, _ := outage(t)
		err := s.WithLifecycleLock(t.Context(), key, func(_ context.Context, own *binding.Ownership) error {
			for range 10 {
				time.Sleep(time.Minute)
				down.Store(true)
				time.Sleep(15 * time.Second)
				down.Store(false)
			}
			return own.Err()
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A turn is not lost by an outage: it is opened again, so that it protects the rest of
// what it was opened for.
func TestTurnComesBackAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, down, renewals := outage(t)
		turn, _, err := s.BeginTurn(t.Context(), key, binding.Keep)
		if err != nil {
			t.Fatal(err)
		}
		down.Store(true)
		time.Sleep(10 * time.Minute)
		if n := renewals.Load(); n > 300 {
			t.Errorf("%d renewals in ten minutes without an answer", n)
		}
		down.Store(false)
		time.Sleep(30 * time.Second)
		if st, err := s.State(t.Context(), key, binding.Keep); err != nil || st.Turns != 1 {
			t.Errorf("State = %+v, %v; want the turn open", st, err)
		}
		turn.End()
		turn.End()
		before := renewals.Load()
		time.Sleep(time.Hour)
		if st, err := s.State(t.Context(), key, binding.Keep); err != nil || st.Turns != 0 || renewals.Load() != before {
			t.Errorf("State = %+v, %v, renewed %d times after the end", st, err, renewals.Load()-before)
		}
	})
}

// Closing the store tells owners at once.
func TestCloseEndsOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := outage(t)
		_ = s.WithLifecycleLock(t.Context(), key, func(_ context.Context, own *binding.Ownership) error {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if !errors.Is(own.Err(), binding.ErrOwnershipLost) || own.Context().Err() == nil {
				t.Errorf("Err = %v", own.Err())
			}
			return nil
		})
	})
}
