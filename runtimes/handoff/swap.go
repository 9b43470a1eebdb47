package handoff

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrSwapping says that another swap of the slot is under way.
var ErrSwapping = errors.New("another swap is under way")

// Outcome of a swap.
type Outcome string

const (
	// Switched: the next generation serves.
	Switched Outcome = "switched"
	// Refused: the next generation was never in service.
	Refused Outcome = "refused"
	// RolledBack: the next generation served, failed while it was watched, and
	// the old one serves again.
	RolledBack Outcome = "rolled_back"
)

// Swap says how to replace a generation.
type Swap[T any] struct {
	// Next makes the next generation and proves that it works, beside the one in
	// service. It leaves nothing behind when it fails.
	Next func(ctx context.Context) (T, error)
	// Watch is how long the old generation is kept ready after the switch; zero
	// does not watch. Failing is asked meanwhile, every Every (50 ms); its error
	// is the reason to go back. It may be nil.
	Watch   time.Duration
	Every   time.Duration
	Failing func(v T) error
	// Drain is how long Swap waits, after the watch, for the calls of the
	// generation that left; it does not end them. Zero waits until the last.
	Drain time.Duration
}

// Report of a swap.
type Report struct {
	Outcome Outcome `json:"outcome"`
	// Reason explains every outcome but Switched, and of that whether the watch was
	// cut short.
	Reason string `json:"reason,omitempty"`
	// From and To are the numbers of the generations; To is zero when refused.
	From int `json:"from"`
	To   int `json:"to,omitempty"`
	// Prepare is how long the next generation took to be ready, Drain how long the
	// calls of the one that left went on after it left.
	Prepare time.Duration `json:"prepare"`
	Drain   time.Duration `json:"drain"`
	// Left is what still runs on the one that left.
	Left Use `json:"left"`
}

// Swap replaces the generation in service and reports what became of it. An
// error means that there was no attempt: ErrSwapping or ErrClosed. When ctx ends
// before the switch nothing changes. After the switch ctx counts no more: whoever
// asked may have gone, and the next generation is watched all the same. Only Accept and
// Settle cut the watch short, and the generation stays then.
func (s *Slot[T]) Swap(ctx context.Context, w Swap[T]) (Report, error) {
	select {
	case s.swapping <- struct{}{}:
		defer func() { <-s.swapping }()
	default:
		return Report{}, ErrSwapping
	}
	old := s.current.Load()
	if old == nil || s.isSettled() {
		return Report{}, ErrClosed
	}
	r := Report{From: old.number}

	began := time.Now()
	v, err := w.Next(ctx)
	r.Prepare = time.Since(began)
	if err != nil {
		r.Outcome, r.Reason = Refused, err.Error()
		return r, nil
	}
	s.mu.Lock()
	s.number++
	next := newGeneration(v, s.number)
	s.mu.Unlock()
	r.To = next.number

	s.current.Store(next)
	r.Outcome = Switched
	leaving := old
	cut, err := s.watch(w, v)
	if err != nil {
		s.current.Store(old)
		r.Outcome, leaving, cut = RolledBack, next, err.Error()
	}
	r.Reason = cut
	left := time.Now()
	s.retire(leaving)
	r.Drain = w.drain(s.settled, leaving, left)
	r.Left = leaving.use()
	return r, nil
}

// Accept ends the watch of a swap under way: the generation that is watched stays. It
// waits for one until ctx ends, and reports whether there was one.
func (s *Slot[T]) Accept(ctx context.Context) bool {
	select {
	case s.accepted <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Settle has what is in service stay: a swap under way is watched and drained no
// longer, and others are ErrClosed. Calls go on. Close settles first.
func (s *Slot[T]) Settle() { s.settle.Do(func() { close(s.settled) }) }

func (s *Slot[T]) isSettled() bool {
	select {
	case <-s.settled:
		return true
	default:
		return false
	}
}

// watch returns why the generation that was put in service must leave again, or why it
// is watched no longer.
func (s *Slot[T]) watch(w Swap[T], v T) (cut string, err error) {
	if w.Watch <= 0 || w.Failing == nil {
		return "", nil
	}
	every := w.Every
	if every <= 0 {
		every = 50 * time.Millisecond
	}
	over := time.NewTimer(w.Watch)
	defer over.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := w.Failing(v); err != nil {
			return "", fmt.Errorf("failed while it was watched: %w", err)
		}
		select {
		case <-tick.C:
		case <-over.C:
			return "", nil
		case <-s.accepted:
			return "the watch was cut short: accepted", nil
		case <-s.settled:
			return "the watch was cut short: closing", nil
		}
	}
}

// drain waits for the calls of g and returns how long they went on.
func (w *Swap[T]) drain(cut <-chan struct{}, g *generation[T], since time.Time) time.Duration {
	var over <-chan time.Time
	if w.Drain > 0 {
		t := time.NewTimer(w.Drain)
		defer t.Stop()
		over = t.C
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for g.calls.Load() > 0 {
		select {
		case <-tick.C:
		case <-over:
			return time.Since(since)
		case <-cut:
			return time.Since(since)
		}
	}
	return time.Since(since)
}
