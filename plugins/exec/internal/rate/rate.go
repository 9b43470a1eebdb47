// Package rate bounds how often each of many principals may do something: so many at
// once, and so many in a time on average. It remembers a bounded number of them.
//
// It counts in this process only, and knows nothing of requests.
package rate

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limit is what each principal may do: Burst at once, and then Requests in each Per.
// All are positive.
type Limit struct {
	Requests int
	Per      time.Duration
	Burst    int
}

// Table has a bucket for each principal. It is safe for concurrent use.
type Table struct {
	every rate.Limit
	burst int
	most  int
	now   func() time.Time

	mu      sync.Mutex
	buckets map[string]*list.Element // of *bucket
	recent  *list.List               // the one used last in front
}

type bucket struct {
	key     string
	limiter *rate.Limiter
}

// New returns a Table that remembers the most principals that were seen last. One
// that was forgotten begins with a full bucket again: that takes as many others as are
// remembered, each with a credential of its own.
func New(l Limit, most int, now func() time.Time) *Table {
	return &Table{
		every: rate.Limit(float64(l.Requests) / l.Per.Seconds()), burst: l.Burst, most: most, now: now,
		buckets: make(map[string]*list.Element), recent: list.New(),
	}
}

// Take counts one act of key and returns 0, or counts nothing and returns after how
// long one would be let through.
func (t *Table) Take(key string) (after time.Duration) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.bucket(key).limiter.ReserveN(now, 1)
	if after = r.DelayFrom(now); after > 0 {
		r.CancelAt(now)
	}
	return after
}

func (t *Table) bucket(key string) *bucket {
	if e := t.buckets[key]; e != nil {
		t.recent.MoveToFront(e)
		return e.Value.(*bucket)
	}
	if t.recent.Len() >= t.most {
		oldest := t.recent.Back()
		delete(t.buckets, oldest.Value.(*bucket).key)
		t.recent.Remove(oldest)
	}
	b := &bucket{key: key, limiter: rate.NewLimiter(t.every, t.burst)}
	t.buckets[key] = t.recent.PushFront(b)
	return b
}

// Len is how many principals are remembered.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.buckets)
}
