package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func join(t *testing.T, q *queue.Queue, tenant string) *queue.Place {
	t.Helper()
	p, err := q.Join(tenant)
	if err != nil {
		t.Fatalf("Join(%q): %v", tenant, err)
	}
	return p
}

// waitInOrder waits for a place in a goroutine of its own and reports its name.
func waitInOrder(t *testing.T, p *queue.Place, name string, order chan<- string) {
	go func() {
		if err := p.Wait(t.Context()); err != nil {
			name = fmt.Sprintf("%s: %v", name, err)
		}
		order <- name
	}()
	synctest.Wait()
}

func TestTenantsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Limits{Running: 1, Waiting: 10, TenantRunning: 1, TenantWaiting: 5})
		first := join(t, q, "a")
		if err := first.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 10)
		places := make(map[string]*queue.Place)
		for _, name := range []string{"a1", "a2", "a3", "b1", "b2"} {
			places[name] = join(t, q, name[:1])
			waitInOrder(t, places[name], name, order)
		}
		first.Leave()
		var got []string
		for range 5 {
			name := <-order
			got = append(got, name)
			places[name].Leave()
		}
		if want := []string{"a1", "b1", "a2", "b2", "a3"}; !slices.Equal(got, want) {
			t.Errorf("order = %v, want %v", got, want)
		}
	})
}

// A tenant that sends one run after another waits for one run of a flood to end,
// however many of those wait: it has fewer under way.
func TestAFloodDelaysItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Limits{Running: 4, Waiting: 100, TenantRunning: 4, TenantWaiting: 50})
		order := make(chan string, 100)
		places := make(map[string]*queue.Place)
		for i := range 40 {
			name := fmt.Sprintf("flood%d", i)
			places[name] = join(t, q, "flood")
			waitInOrder(t, places[name], name, order)
		}
		var under []string // runs of the flood under way, the oldest first
		for round := range 5 {
			p := join(t, q, "other")
			waitInOrder(t, p, "other", order)
			for ended, began := 0, false; !began; {
				for len(order) > 0 {
					name := <-order
					if began = began || name == "other"; name != "other" {
						under = append(under, name)
					}
				}
				if began {
					break
				}
				if ended++; ended > 1 {
					t.Fatalf("round %d: more than one run of the flood ended before the other's began", round)
				}
				places[under[0]].Leave()
				under = under[1:]
				synctest.Wait()
			}
			p.Leave()
			synctest.Wait()
		}
		for _, p := range places {
			p.Leave()
		}
	})
}

func TestATenantAtItsCapLetsOthersPass(t *testing.T) {
	q := queue.New(queue.Limits{Running: 3, Waiting: 10, TenantRunning: 1, TenantWaiting: 5})
	a := join(t, q, "a")
	if err := a.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	stuck := join(t, q, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stuck.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait beyond the tenant's cap = %v, want to wait", err)
	}
	if err := join(t, q, "b").Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The first leaves: the place that waits still may run.
	a.Leave()
	if err := stuck.Wait(t.Context()); err != nil {
		t.Errorf("Wait after the cap was free again: %v", err)
	}
}

func TestFull(t *testing.T) {
	q := queue.New(queue.Limits{Running: 2, Waiting: 2, TenantRunning: 1, TenantWaiting: 1})
	a1, _ := join(t, q, "a"), join(t, q, "a")
	_, err := q.Join("a")
	full, ok := errors.AsType[*queue.FullError](err)
	if !ok || full.Places != 2 || full.Running != 1 {
		t.Fatalf("a third place of a = %v, want a FullError of 2 places, 1 running", err)
	}
	join(t, q, "b")
	join(t, q, "c")
	if _, err := q.Join("d"); !errors.As(err, &full) || full.Places != 4 {
		t.Fatalf("a fifth place = %v, want a FullError of 4", err)
	}
	a1.Leave()
	a1.Leave() // a second time changes nothing
	join(t, q, "a")
	if _, err := q.Join("a"); err == nil {
		t.Error("leaving twice made room for two")
	}
}

// A place that leaves while it waits neither blocks nor takes anybody's turn.
func TestLeaveWhileWaiting(t *testing.T) {
	q := queue.New(queue.Limits{Running: 1, Waiting: 5, TenantRunning: 1, TenantWaiting: 5})
	a := join(t, q, "a")
	if err := a.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone, next := join(t, q, "a"), join(t, q, "a")
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, p := range []*queue.Place{gone, next} {
		if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	gone.Leave()
	a.Leave()
	if err := next.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Whoever gave up waiting takes nobody's turn, though its place may be taken still.
func TestDoneWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Limits{Running: 1, Waiting: 2, TenantRunning: 1, TenantWaiting: 2})
		order := make(chan string, 2)
		one, two, three := join(t, q, "a"), join(t, q, "a"), join(t, q, "a")
		waitInOrder(t, one, "one", order)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := two.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		two.Done()
		waitInOrder(t, three, "three", order)
		one.Done()
		synctest.Wait()
		if s := q.Stats(); s.Running != 1 || s.Waiting != 0 || s.Places != 3 || len(order) != 2 {
			t.Errorf("%+v", s)
		}
		for _, p := range []*queue.Place{one, two, three} {
			p.Leave()
		}
		if s := q.Stats(); s != (queue.Stats{}) {
			t.Errorf("at the end %+v", s)
		}
	})
}

// A run that did not come about lets others run before it tries again, with other needs.
func TestAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Limits{Running: 1, Waiting: 2, TenantRunning: 1, TenantWaiting: 2, Memory: 10})
		order := make(chan string, 3)
		one, two := join(t, q, "a"), join(t, q, "a")
		one.Again() // nothing to take back yet
		one.Need(3)
		one.Lasts()
		waitInOrder(t, one, "one", order)
		waitInOrder(t, two, "two", order)
		kept := one.Keep()
		kept.Release()
		one.Again()
		synctest.Wait()
		one.Need(7)
		waitInOrder(t, one, "one again", order)
		if s := q.Stats(); s.Running != 1 || s.Waiting != 1 || s.Memory != 0 || len(order) != 2 {
			t.Errorf("%+v, %d ran", s, len(order))
		}
		two.Leave()
		synctest.Wait()
		if s := q.Stats(); s.Running != 1 || s.Waiting != 0 || s.Memory != 7 || len(order) != 3 {
			t.Errorf("%+v, %d ran", s, len(order))
		}
		one.Leave()
		if s := q.Stats(); s != (queue.Stats{}) {
			t.Errorf("at the end %+v", s)
		}
	})
}

func TestClose(t *testing.T) {
	q := queue.New(queue.Limits{Running: 1, Waiting: 1, TenantRunning: 1, TenantWaiting: 1})
	p := join(t, q, "a")
	q.Close()
	if _, err := q.Join("a"); !errors.Is(err, queue.ErrClosed) {
		t.Errorf("Join after Close = %v", err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Errorf("a place taken before Close cannot run: %v", err)
	}
	select {
	case <-q.Empty():
		t.Error("empty while somebody runs")
	default:
	}
	p.Leave()
	<-q.Empty()
	q.Close()
}

// 8 tenants, 400 runs, some of which give up: the caps hold at every moment and
// everything is given back.
func TestHammer(t *testing.T) {
	limits := queue.Limits{Running: 5, Waiting: 1000, TenantRunning: 2, TenantWaiting: 1000, Memory: 40, TenantMemory: 20}
	q := queue.New(limits)
	var mu sync.Mutex
	total, mine, memory := 0, make(map[string]int), int64(0)
	var wg sync.WaitGroup
	for i := range 400 {
		name := fmt.Sprint(i % 8)
		wg.Go(func() {
			p, err := q.Join(name)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Leave()
			need := int64(i % 13)
			p.Need(need)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, cancel)
			}
			if p.Wait(ctx) != nil {
				return
			}
			mu.Lock()
			total++
			mine[name]++
			memory += need
			if total > limits.Running || mine[name] > limits.TenantRunning || memory > limits.Memory {
				t.Errorf("%d run, %d of tenant %s, %d bytes", total, mine[name], name, memory)
			}
			mu.Unlock()
			for range rand.IntN(100) {
				_ = fmt.Sprint(i)
			}
			mu.Lock()
			total--
			mine[name]--
			memory -= need
			mu.Unlock()
			if i%2 == 0 {
				p.Done()
			}
		})
	}
	wg.Wait()
	q.Close()
	<-q.Empty()
}
