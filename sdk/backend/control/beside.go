package control

import (
	"context"
	"time"
)

// besideInterval is how often Beside looks while calls are open.
const besideInterval = 100 * time.Millisecond

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
	tick := time.NewTicker(besideInterval)
	defer tick.Stop()
	for {
		suspended, changed := r.Suspended()
		now, err := b.Used()
		if err != nil || now-before > left {
			return 0, false
		}
		if !suspended {
			return max(now-before, 0), true
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return 0, false
		}
	}
}
