package handoff

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// ErrClosed says that a slot was closed.
var ErrClosed = errors.New("closed")

// Slot holds the generation in service. It is safe for concurrent use, and
// borrowing costs two atomic additions and no allocation.
type Slot[T any] struct {
	current atomic.Pointer[generation[T]]
	dispose func(context.Context, T) error

	swapping chan struct{} // holds a token during a swap
	settle   sync.Once
	settled  chan struct{} // closed when no swap is watched or begins any more
	accepted chan struct{} // taken by who watches a swap

	mu       sync.Mutex
	number   int
	retiring map[*generation[T]]struct{}
	closed   bool
	drains   sync.WaitGroup
	life     context.Context // of drains; ends when Close loses its patience
	hurry    context.CancelFunc
	errs     []error
}

// generation is one value with those who use it.
type generation[T any] struct {
	value  T
	number int
	// calls are those that a drain waits for first, pins what may last.
	calls, pins atomic.Int64
	leaving     atomic.Bool
	wake        chan struct{} // holds a token when a count fell to zero
}

// Ref is a generation on loan. Release must be called exactly once.
type Ref[T any] struct {
	g      *generation[T]
	pinned bool
}

// Value is what serves.
func (r Ref[T]) Value() T { return r.g.value }

// Generation is the number of the generation, from 1.
func (r Ref[T]) Generation() int { return r.g.number }

// Pin turns a call into something that may last, such as a terminal: a swap
// waits for calls before it reports, and for pins in the background. It takes
// the place of r: release the result instead.
func (r Ref[T]) Pin() Ref[T] {
	if r.pinned {
		return r
	}
	r.g.pins.Add(1)
	r.g.done(&r.g.calls)
	return Ref[T]{g: r.g, pinned: true}
}

// Release gives the loan back.
func (r Ref[T]) Release() {
	if r.pinned {
		r.g.done(&r.g.pins)
	} else {
		r.g.done(&r.g.calls)
	}
}

func (g *generation[T]) done(count *atomic.Int64) {
	if count.Add(-1) == 0 && g.leaving.Load() {
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
}

// idle waits until the counts are zero, or for ctx.
func (g *generation[T]) idle(ctx context.Context, counts ...*atomic.Int64) error {
	for {
		busy := false
		for _, c := range counts {
			busy = busy || c.Load() > 0
		}
		if !busy {
			return nil
		}
		select {
		case <-g.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// New returns a slot with its first generation. dispose ends a generation that
// nobody uses any more, within ctx; it is called once for each that was ever in
// the slot.
func New[T any](first T, dispose func(context.Context, T) error) *Slot[T] {
	s := &Slot[T]{
		dispose: dispose, number: 1, swapping: make(chan struct{}, 1), settled: make(chan struct{}), accepted: make(chan struct{}),
		retiring: make(map[*generation[T]]struct{}),
	}
	s.life, s.hurry = context.WithCancel(context.Background())
	s.current.Store(newGeneration(first, 1))
	return s
}

func newGeneration[T any](v T, number int) *generation[T] {
	return &generation[T]{value: v, number: number, wake: make(chan struct{}, 1)}
}

// Acquire borrows the generation in service. It fails with ErrClosed only.
func (s *Slot[T]) Acquire() (Ref[T], error) {
	for {
		g := s.current.Load()
		if g == nil {
			return Ref[T]{}, ErrClosed
		}
		g.calls.Add(1)
		// A swap between the two lines may have seen no call: this one must not
		// begin on what may be ended already.
		if s.current.Load() == g {
			return Ref[T]{g: g}, nil
		}
		g.done(&g.calls)
	}
}

// Use counts what is in flight on one generation.
type Use struct {
	Generation  int `json:"generation"`
	Calls, Pins int64
}

func (g *generation[T]) use() Use {
	return Use{Generation: g.number, Calls: g.calls.Load(), Pins: g.pins.Load()}
}

// Uses lists the generation in service, then those on their way out.
func (s *Slot[T]) Uses() []Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Use
	if g := s.current.Load(); g != nil {
		out = append(out, g.use())
	}
	for g := range s.retiring {
		out = append(out, g.use())
	}
	return out
}

// retire lets g end once nobody uses it. It is not in service any more.
func (s *Slot[T]) retire(g *generation[T]) {
	g.leaving.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retiring[g] = struct{}{}
	s.drains.Go(func() {
		_ = g.idle(s.life, &g.calls, &g.pins) // without patience it ends as it is
		err := s.dispose(s.life, g.value)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.retiring, g)
		if err != nil {
			s.errs = append(s.errs, err)
		}
	})
}

// Close takes the generation in service out, waits until nobody uses any, or
// until ctx ends, and ends them all. It returns what failed to end. A swap under
// way is over before Close begins. Further calls return nil.
func (s *Slot[T]) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.Settle()
	s.swapping <- struct{}{}
	defer func() { <-s.swapping }()
	s.retire(s.current.Swap(nil))

	drained := make(chan struct{})
	go func() {
		s.drains.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-ctx.Done():
		s.hurry()
		<-drained
	}
	s.hurry()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}
