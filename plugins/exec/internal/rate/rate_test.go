package rate

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func TestTake(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	table := New(Limit{Requests: 60, Per: time.Minute, Burst: 3}, 10, c.now)
	for i := range 3 {
		if after := table.Take("a"); after != 0 {
			t.Fatalf("act %d waits %v", i, after)
		}
	}
	for range 5 { // asking again and again makes it no longer
		if after := table.Take("a"); after != time.Second {
			t.Fatalf("the fourth waits %v, want 1s", after)
		}
	}
	if after := table.Take("b"); after != 0 {
		t.Errorf("another principal waits %v", after)
	}
	c.t = c.t.Add(time.Second)
	if after := table.Take("a"); after != 0 {
		t.Errorf("after a second it still waits %v", after)
	}
	if after := table.Take("a"); after == 0 {
		t.Error("two acts came out of one second")
	}
	c.t = c.t.Add(time.Hour)
	for range 3 {
		if table.Take("a") != 0 {
			t.Fatal("the bucket did not fill")
		}
	}
	if table.Take("a") == 0 {
		t.Error("the bucket overflowed")
	}
}

func TestRemembersFew(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	table := New(Limit{Requests: 1, Per: time.Hour, Burst: 1}, 100, c.now)
	table.Take("kept")
	for i := range 10_000 {
		table.Take(fmt.Sprint(i))
		table.Take("kept") // a principal that goes on is not forgotten
	}
	if n := table.Len(); n != 100 {
		t.Errorf("%d are remembered, want 100", n)
	}
	if table.Take("kept") == 0 {
		t.Error("a principal got a new bucket by being pushed out although it was in use")
	}
}

// Whatever the schedule, no more pass than there are.
func TestTogether(t *testing.T) {
	c := &clock{time.Unix(1000, 0)}
	table := New(Limit{Requests: 1, Per: time.Hour, Burst: 50}, 10, c.now)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 100 {
				if table.Take("a") == 0 {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); n != 50 {
		t.Errorf("%d passed, want 50", n)
	}
}

func BenchmarkTake(b *testing.B) {
	table := New(Limit{Requests: 1000, Per: time.Second, Burst: 1000}, 10_000, time.Now)
	keys := make([]string, 5000)
	for i := range keys {
		keys[i] = fmt.Sprint("org", i)
		table.Take(keys[i])
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		table.Take(keys[i%len(keys)])
		i++
	}
}
