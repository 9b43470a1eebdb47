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

// A tenant has the whole of its bound while it is alone, and its share of the machine
// while others come and go.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Limits{Running: 8, Waiting: 100, TenantRunning: 4, TenantWaiting: 50, TenantShare: 2})
		order := make(chan string, 100)
		var flood []*queue.Place
		for range 20 {
			p := join(t, q, "flood")
			waitInOrder(t, p, "flood", order)
			flood = append(flood, p)
		}
		under := func() int { return q.Stats().Running }
		end := func() {
			flood[0].Leave()
			flood = flood[1:]
			synctest.Wait()
		}
		if under() != 4 {
			t.Fatalf("%d run alone, want 4", under())
		}
		quiet := join(t, q, "quiet")
		if err := quiet.Wait(t.Context()); err != nil { // at once
			t.Fatal(err)
		}
		for range 3 {
			end()
		}
		if under() != 2+1 {
			t.Errorf("%d run beside another tenant, want its own and 2", under())
		}
		quiet.Leave()
		end()
		if under() != 2 {
			t.Errorf("%d run a moment after, want 2", under())
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if under() != 4 { // although none of its own has ended
			t.Errorf("%d run alone again, want 4", under())
		}
		end()
		if quiet = join(t, q, "quiet"); quiet.Wait(t.Context()) != nil {
			t.Fatal("no place")
		}
		time.Sleep(time.Minute) // its run is a long one
		for range 3 {
			end()
		}
		if under() != 2+1 {
			t.Errorf("%d run beside a long run of another tenant, want it and 2", under())
		}
		quiet.Leave()
		end()
		if under() != 2 {
			t.Errorf("%d run a moment after that, want 2", under())
		}
		for _, p := range flood {
			p.Leave()
		}
	})
}

// Runs at a provider take no processors from anybody: they have no share, and are in
// nobody's.
func TestSharesAreOfThisMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Limits{Running: 8, Waiting: 100, TenantRunning: 4, TenantWaiting: 50, TenantShare: 1})
		order := make(chan string, 100)
		join(t, q, "quiet").Leave()
		var flood []*queue.Place
		for i := range 20 {
			p := join(t, q, "flood")
			if i%2 == 0 || i > 10 {
				p.Elsewhere()
			}
			flood = append(flood, p)
			waitInOrder(t, p, "flood", order)
		}
		if got := q.Stats().Running; got != 3 { // the fourth in line would be its second here
			t.Errorf("%d run, want 3", got)
		}
		flood[1].Leave() // the one here
		synctest.Wait()
		if got := q.Stats().Running; got != 4 {
			t.Errorf("%d run, want all four places taken", got)
		}
		for _, p := range flood {
			p.Leave()
		}
	})
}

func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Limits{Running: 10, Waiting: 50, TenantRunning: 5, TenantWaiting: 40, Memory: 100, TenantMemory: 60})
		order := make(chan string, 50)
		begin := func(tenant, name string, need int64) *queue.Place {
			p := join(t, q, tenant)
			p.Need(need)
			waitInOrder(t, p, name, order)
			return p
		}
		running := func() (names []string) {
			synctest.Wait()
			for len(order) > 0 {
				names = append(names, <-order)
			}
			slices.Sort(names)
			return names
		}
		a1, a2 := begin("a", "a1", 40), begin("a", "a2", 40) // beyond a's part
		b1 := begin("b", "b1", 60)
		if got := running(); !slices.Equal(got, []string{"a1", "b1"}) {
			t.Fatalf("running = %v, want a1 and b1", got)
		}
		c1 := begin("c", "c1", 10)
		if got := running(); got != nil {
			t.Fatalf("%v began without memory", got)
		}
		if s := q.Stats(); s != (queue.Stats{Places: 4, Running: 2, Waiting: 2, Tenants: 3, Memory: 100}) {
			t.Errorf("stats = %+v", s)
		}
		a1.Done() // its answer is still to be sent
		if got := running(); !slices.Equal(got, []string{"a2"}) {
			t.Fatalf("after a1: %v, want a2", got)
		}
		a2.Leave()
		if got := running(); !slices.Equal(got, []string{"c1"}) {
			t.Fatalf("after a2: %v, want c1", got)
		}
		c1.Leave()
		b1.Leave()
		a1.Leave()
		if s := q.Stats(); s != (queue.Stats{}) {
			t.Errorf("left over: %+v", s)
		}
		// What declares more than there is runs alone, and is reached.
		whole := begin("d", "whole", 1000)
		small := begin("e", "small", 1)
		if got := running(); !slices.Equal(got, []string{"whole"}) {
			t.Fatalf("running = %v, want whole", got)
		}
		whole.Leave()
		if got := running(); !slices.Equal(got, []string{"small"}) {
			t.Fatalf("running = %v, want small", got)
		}
		large := begin("d", "large", 100)
		passed := 0
		for ; passed < 100; passed++ {
			next := begin("e", "next", 1)
			if running() == nil {
				next.Leave()
				break
			}
			small.Leave()
			small = next
		}
		if passed > 16 {
			t.Errorf("a large run was passed over %d times", passed)
		}
		small.Leave()
		if got := running(); !slices.Contains(got, "large") {
			t.Errorf("running = %v, want large", got)
		}
		large.Leave()
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

// One tenant's programs have half of what programs may keep, all at once or one by one.
func TestKeptMemoryIsShared(t *testing.T) {
	for _, at := range []string{"once", "times"} {
		synctest.Test(t, func(t *testing.T) {
			q := queue.New(queue.Limits{Running: 10, Waiting: 50, TenantRunning: 5, TenantWaiting: 40, Memory: 400, TenantMemory: 200})
			order := make(chan string, 50)
			var places []*queue.Place
			var kept []*queue.Held
			begin := func(tenant string) {
				p := join(t, q, tenant)
				p.Need(40)
				p.Lasts()
				waitInOrder(t, p, tenant, order)
				if places = append(places, p); at == "times" {
					kept = append(kept, p.Keep())
				}
			}
			for range 4 {
				begin("a")
			}
			begin("b")
			begin("b")
			synctest.Wait()
			var got []string
			for len(order) > 0 {
				got = append(got, <-order)
			}
			if want := []string{"a", "a", "b", "b"}; !slices.Equal(got, want) {
				t.Errorf("at %s: %v began, want %v", at, got, want)
			}
			for _, p := range places {
				p.Leave()
			}
			for _, h := range kept {
				h.Release()
			}
			synctest.Wait()
			if s := q.Stats(); s.Memory != 0 || s.Running != 0 {
				t.Errorf("in the end %+v", s)
			}
		})
	}
}

// keeping lets places wait that need memory, and keep it if they last, and says who runs of
// those that did not before.
func keeping(t *testing.T, q *queue.Queue, order chan string) (begin func(tenant, name string, need int64, lasts bool) *queue.Place, expect func(want ...string)) {
	begin = func(tenant, name string, need int64, lasts bool) *queue.Place {
		p := join(t, q, tenant)
		p.Need(need)
		if lasts {
			p.Lasts()
		}
		waitInOrder(t, p, name, order)
		return p
	}
	return begin, func(want ...string) {
		t.Helper()
		synctest.Wait()
		var got []string
		for len(order) > 0 {
			got = append(got, <-order)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("%v run, want %v", got, want)
		}
	}
}

// What programs keep while they wait is part of the budget, at most half of it, and in
// nobody's way who needs none of it.
func TestKeptMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Limits{Running: 10, Waiting: 50, TenantRunning: 5, TenantWaiting: 40, Memory: 100, TenantMemory: 60})
		order := make(chan string, 50)
		begin, expect := keeping(t, q, order)
		p1 := begin("a", "p1", 40, true)
		expect("p1")
		m1 := p1.Keep()
		p1.Leave() // it waits for its caller
		if s := q.Stats(); s != (queue.Stats{Tenants: 1, Memory: 40}) {
			t.Errorf("stats = %+v", s)
		}
		p2 := begin("b", "p2", 20, true) // beyond half
		expect()
		a := begin("a", "a", 30, false) // beyond a's part
		c := begin("c", "c", 60, false)
		expect("c")
		again := join(t, q, "a") // p1 goes on, with what it has
		again.Resumes()
		waitInOrder(t, again, "again", order)
		expect("again")
		again.Leave()
		c.Leave()
		big := begin("d", "big", 80, false) // never while p1 waits, and in nobody's way
		var small []*queue.Place
		for i := range 20 {
			small = append(small, begin("e", "small", 5, false))
			expect("small")
			small[i].Leave()
		}
		m1.Release()
		expect("a", "p2")
		m2 := p2.Keep()
		p2.Leave()
		a.Leave()
		expect("big")
		big.Leave()
		m2.Release()
		(*queue.Held)(nil).Release()
		if s := q.Stats(); s != (queue.Stats{}) {
			t.Errorf("in the end %+v", s)
		}
		if left := begin("a", "left", 1, true); left != nil {
			expect("left")
			left.Leave()
			if left.Keep() != nil {
				t.Error("a place that does not run keeps memory")
			}
		}
	})
}

// A tenant's runs do not wait behind one of its programs that waits for what others of its
// programs keep, and programs leave half of what is a tenant's to its runs.
func TestKeptMemoryIsNobodysTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Limits{Running: 10, Waiting: 50, TenantRunning: 5, TenantWaiting: 40, Memory: 800, TenantMemory: 100})
		join, expect := keeping(t, q, make(chan string, 50))
		var all []*queue.Place
		begin := func(name string, need int64, lasts bool) *queue.Place {
			all = append(all, join("a", name, need, lasts))
			return all[len(all)-1]
		}
		p1 := begin("p1", 40, true)
		expect("p1")
		kept := p1.Keep()
		p1.Leave()
		begin("p2", 40, true)
		expect()
		run := begin("run", 40, false)
		begin("large", 80, false) // never while p1 waits
		begin("small", 10, false)
		expect("run", "small")
		begin("later", 30, false)
		begin("last", 10, false)
		expect() // it stands behind one that waits for runs only
		run.Leave()
		expect("last", "later")
		kept.Release()
		expect("p2") // it came before the large one
		for _, p := range all {
			p.Leave()
			synctest.Wait()
		}
		if s := q.Stats(); s != (queue.Stats{}) {
			t.Errorf("in the end %+v", s)
		}
	})
}
