package queue_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
)

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
		run := func(name string, elsewhere bool) {
			p := join(t, q, "flood")
			if elsewhere {
				p.Elsewhere()
			}
			flood = append(flood, p)
			waitInOrder(t, p, name, order)
		}
		run("elsewhere", true)
		run("here", false)
		run("here again", false)
		run("elsewhere again", true) // which the one before does not keep waiting
		run("elsewhere once more", true)
		if got := q.Stats(); got.Running != 4 || got.Waiting != 1 {
			t.Errorf("%+v, want all four places taken", got)
		}
		flood[1].Leave() // the one here
		synctest.Wait()
		close(order)
		var got []string
		for name := range order {
			got = append(got, name)
		}
		if want := []string{"elsewhere", "here", "elsewhere again", "elsewhere once more", "here again"}; !slices.Equal(got, want) {
			t.Errorf("they ran in the order %q, want %q", got, want)
		}
		for _, p := range flood {
			p.Leave()
		}
	})
}
