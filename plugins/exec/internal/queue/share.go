package queue

import "time"

// about is how long a tenant counts as present after it joined, and after its last run on
// this machine ended.
const about = 10 * time.Second

// seen is when a tenant joined, or a run of its own ended.
type seen struct {
	name string
	at   time.Time
}

func (q *Queue) see(name string) {
	if q.last.name != name {
		q.before = q.last
	}
	q.last = seen{name, time.Now()}
}

// most is how many runs of t may be under way on this machine now.
func (q *Queue) most(t *tenant) int {
	other := q.last
	if other.name == t.name {
		other = q.before
	}
	others := q.present
	if t.here > 0 {
		others--
	}
	if share := q.limits.TenantShare; share > 0 && (others > 0 || !other.at.IsZero() && time.Since(other.at) < about) {
		return min(share, q.limits.TenantRunning)
	}
	return q.limits.TenantRunning
}

// lookAgain has the turns looked at again later: that others are not here any more is
// nothing that happens, and runs that wait for it would wait for one of their own to end.
func (q *Queue) lookAgain() {
	if q.again != nil {
		return
	}
	q.again = time.AfterFunc(about/10, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.again = nil
		q.dispatch()
	})
}
