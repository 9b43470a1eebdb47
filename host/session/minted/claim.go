package minted

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// A run claims its session among replicas as an activity of which there may be one.
// It ends by itself when its replica dies.
const (
	claimKind  = "run"
	claimLease = 30 * time.Second
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// claim waits until no other replica runs in the session, and returns how to end
// that. A claim that cannot be renewed is logged and no more: the run goes on, and a
// run elsewhere may begin beside it, which costs the report of who changed what.
func (s *Sessions) claim(ctx context.Context, id string) (end func(), err error) {
	work := binding.Work{ID: "run-" + rand.Text(), Kind: claimKind}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := s.o.Store.AddWork(ctx, keyOf(id), work, claimLease, 1)
		if err == nil {
			break
		}
		if !errors.Is(err, binding.ErrWorkLimit) {
			// An answer that was lost may have left a claim, which would last its lease.
			s.unclaim(ctx, id, work.ID)
			return nil, fmt.Errorf("take the session's turn: %w", err)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(claimLease / 3)
		defer tick.Stop()
		for {
			select {
			case <-life.Done():
				return
			case <-tick.C:
			}
			live, err := s.o.Store.RenewWork(life, keyOf(id), work.ID, claimLease)
			if err == nil && !live {
				err = s.o.Store.AddWork(life, keyOf(id), work, claimLease, 1)
			}
			if err != nil && life.Err() == nil {
				s.o.Log.Warn("a run's claim to its session could not be renewed", "session", id, "error", err)
			}
		}
	})
	return func() {
		stop()
		renewing.Wait()
		s.unclaim(ctx, id, work.ID)
	}, nil
}

func (s *Sessions) unclaim(ctx context.Context, id, work string) {
	if err := s.o.Store.RemoveWork(context.WithoutCancel(ctx), keyOf(id), work); err != nil {
		s.o.Log.Warn("a run's claim to its session ends by itself", "session", id, "after", claimLease, "error", err)
	}
}
