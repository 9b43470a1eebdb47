package control

import (
	"context"
	"runtime"
	"time"
)

// While calls are open Beside looks next when what is left can be used up, at the
// earliest, by a program on all processors, and not sooner than besideInterval. Time that
// is counted otherwise, as fuel is, may pass fastest times faster.
const (
	besideInterval = 100 * time.Millisecond
	fastest        = 2
)

// Beside bounds what a program computes beside its open calls, where only the
// processor can say so.
type Beside struct {
	// Used returns the processor time of the program until now. An error ends the
	// program: what cannot be measured cannot be bounded.
	Used func() (time.Duration, error)
	// Limit is the most of it that may be used beside open calls.
	Limit time.Duration
	// Expire is called once when it is used up.
	Expire func()
}

// Watch does so until ctx ends, in the caller's goroutine.
func (b Beside) Watch(ctx context.Context, r *Run) {
	var beside time.Duration
	for {
		suspended, changed := r.Suspended()
		if !suspended {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		spent, ok := b.stretch(ctx, r, b.Limit-beside)
		if ctx.Err() != nil {
			return
		}
		if !ok {
			b.Expire()
			return
		}
		beside += spent
	}
}

// stretch watches one time in which calls are open and says what was used.
func (b Beside) stretch(ctx context.Context, r *Run, left time.Duration) (spent time.Duration, ok bool) {
	before, err := b.Used()
	if err != nil {
		return 0, false
	}
	for {
		resumed := r.resumes(ctx, max(besideInterval, (left-spent)/time.Duration(fastest*runtime.NumCPU())))
		if ctx.Err() != nil {
			return 0, false
		}
		now, err := b.Used()
		if spent = max(now-before, 0); err != nil || spent > left {
			return 0, false
		}
		if resumed {
			return spent, true
		}
	}
}

// resumes waits until no call is open, for d at most, and reports whether none is.
func (r *Run) resumes(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		suspended, changed := r.Suspended()
		if !suspended {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
