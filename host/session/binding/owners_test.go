package binding_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/bindingtest"
	"github.com/caisson-run/caisson/host/session/binding/memory"
)

// network delays and loses questions and answers.
type network struct {
	mu     sync.Mutex
	random *rand.Rand
	down   bool
}

var errCut = &binding.Error{Reason: binding.Down, Err: errors.New("cut off")}

func (n *network) pass(ctx context.Context) error {
	n.mu.Lock()
	lost := n.down || n.random.IntN(10) == 0
	wait := time.Duration(n.random.Int64N(int64(3 * time.Second)))
	if n.random.IntN(8) == 0 {
		wait *= 30
	}
	n.mu.Unlock()
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if lost {
		return errCut
	}
	return nil
}

// Whatever the network does, no two replicas ever believe at the same moment that they
// own a session, and the fences of those that change something only grow.
func TestAtMostOneOwner(t *testing.T) {
	owned := 0
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { owned += oneOwner(t, seed) })
		})
	}
	if owned < 100 {
		t.Errorf("only %d owners in all: the test proves nothing", owned)
	}
}

func oneOwner(t *testing.T, seed uint64) (owned int) {
	engine := memory.NewEngine(memory.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	var mu sync.Mutex
	believers := make(map[*binding.Ownership]bool)
	var last binding.Fence
	var wg sync.WaitGroup
	for replica := range 4 {
		n := &network{random: rand.New(rand.NewPCG(seed, uint64(replica)))}
		s, err := binding.New(&bindingtest.Faulty{
			Engine: engine,
			Before: func(ctx context.Context, _ string) error { return n.pass(ctx) },
			// The answer may be late, and is not interrupted.
			After: func(string) error { return n.pass(context.Background()) },
		}, binding.Options{OpTimeout: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		wg.Go(func() { // outages
			for ctx.Err() == nil {
				n.mu.Lock()
				n.down = !n.down && n.random.IntN(3) == 0
				wait := time.Duration(n.random.Int64N(int64(3 * time.Minute)))
				n.mu.Unlock()
				sleep(ctx, wait)
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				_ = s.WithLifecycleLock(ctx, key, func(_ context.Context, own *binding.Ownership) error {
					mu.Lock()
					owned++
					believers[own] = true
					mu.Unlock()
					n.mu.Lock()
					work := time.Duration(n.random.Int64N(int64(4 * time.Minute)))
					n.mu.Unlock()
					sleep(own.Context(), work)
					b := binding.Binding{Key: key, Provider: "p", Sandbox: fmt.Sprint(own.Fence()), Created: time.Now()}
					changed, err := s.Create(own.Context(), b)
					if err == nil && changed {
						_, err = s.DeleteIfMatch(own.Context(), key, "p", b.Sandbox)
					}
					mu.Lock()
					defer mu.Unlock()
					if changed && own.Fence() < last {
						t.Errorf("fence %d changed something after %d", own.Fence(), last)
					}
					if changed {
						last = own.Fence()
					}
					return err
				})
			}
		})
	}
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		mu.Lock()
		believe := 0
		for own := range believers {
			if own.Err() == nil {
				believe++
			} else {
				delete(believers, own)
			}
		}
		mu.Unlock()
		if believe > 1 {
			t.Errorf("%d owners at once", believe)
			break
		}
	}
	cancel()
	wg.Wait()
	return owned
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
