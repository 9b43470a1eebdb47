package queue_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
)

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
