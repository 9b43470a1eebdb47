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
	// generation that left; it does not end them. Zero waits as long as ctx.
	Drain time.Duration
}

// Report of a swap.
type Report struct {
	Outcome Outcome `json:"outcome"`
	// Reason explains every outcome but Switched.
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
// before the switch nothing changes; after it the watch is cut short, and the
// new generation stays.
func (s *Slot[T]) Swap(ctx context.Context, w Swap[T]) (Report, error) {
	select {
	case s.swapping <- struct{}{}:
		defer func() { <-s.swapping }()
	default:
		return Report{}, ErrSwapping
	}
	old := s.current.Load()
	if old == nil || s.isClosed() {
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
	if err := w.watch(ctx, v); err != nil {
		s.current.Store(old)
		r.Outcome, r.Reason, leaving = RolledBack, err.Error(), next
	}
	left := time.Now()
	s.retire(leaving)
	r.Drain = w.drain(ctx, leaving, left)
	r.Left = leaving.use()
	return r, nil
}

func (s *Slot[T]) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// watch returns why the generation that was put in service must leave again.
func (w *Swap[T]) watch(ctx context.Context, v T) error {
	if w.Watch <= 0 || w.Failing == nil {
		return nil
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
			return fmt.Errorf("failed while it was watched: %w", err)
		}
		select {
		case <-tick.C:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// drain waits for the calls of g and returns how long they went on.
func (w *Swap[T]) drain(ctx context.Context, g *generation[T], since time.Time) time.Duration {
	if w.Drain > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.Drain)
		defer cancel()
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for g.calls.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return time.Since(since)
		}
	}
	return time.Since(since)
}
