package guest

import (
	"context"
	"time"
)

// Bench is where programs compute beside their open calls, by turns: nobody waits for
// them, as their callers have answers to give first, so they leave the places, and most of
// the processors, to others. It is safe for concurrent use.
type Bench struct{ seats chan struct{} }

const (
	// besideGrace is what a run computes beside its calls, over its life, in its place: to
	// send them off, and to read answers.
	besideGrace = 100 * time.Millisecond
	// BenchTurn is how long one keeps a seat, and how long the seat is empty then.
	BenchTurn = 20 * time.Millisecond
)

// NewBench returns one with so many seats.
func NewBench(seats int) *Bench {
	b := &Bench{seats: make(chan struct{}, seats)}
	for range seats {
		b.seats <- struct{}{}
	}
	return b
}

func (b *Bench) leave() {
	time.AfterFunc(BenchTurn, func() { b.seats <- struct{}{} })
}

// stand gives up the run's seat on the bench if it has one.
func (r *Run) stand() {
	if r.benched {
		r.benched = false
		r.Program.Bench.leave()
	}
}

// Benched reports whether the run has a seat on the bench.
func (r *Run) Benched() bool { return r.benched }

// Bench makes a run that computes beside its open calls wait for its turn, and one whose
// calls were answered for its place. The error is that ctx ended.
func (r *Run) Bench(ctx context.Context) error {
	if r.benched && time.Since(r.benchedAt) < BenchTurn && r.suspended() {
		return nil
	}
	r.Rise()
	for {
		open, changed := r.Program.Control.Suspended()
		if !open {
			return r.Sit(ctx)
		}
		select {
		case <-r.Program.Bench.seats:
			r.benched, r.benchedAt = true, time.Now()
			return nil
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
