package supervise

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Options of New. Name, Launch and Check are required.
type Options[U Unit] struct {
	// Name is the plugin's, for errors and logs.
	Name string
	// Launch starts a unit and returns once it is ready for calls. It bounds its
	// own time, ends with ctx, and leaves nothing behind when it fails.
	Launch func(ctx context.Context) (U, error)
	// Check asks a unit how it is, within ctx. An error means that it did not
	// answer.
	Check func(ctx context.Context, u U) (Health, error)
	Settings
	Log hclog.Logger
	// Changed is told of every new state, by the goroutine that owns the program: it
	// must not block. Nil is fine.
	Changed func(before, now View)
	// Jitter returns numbers in [0, 1); nil means a random source.
	Jitter func() float64
}

// Supervisor keeps one program running. It is safe for concurrent use.
type Supervisor[U Unit] struct {
	o     Options[U]
	view  atomic.Pointer[snapshot[U]]
	reset chan chan struct{}
	heard chan heardHealth[U]

	life  context.Context // of launches and checks; its end is Close
	end   context.CancelFunc
	stop  context.Context // of the last stop; its end is the end of patience
	hurry context.CancelFunc
	gone  chan struct{} // closed when the owner has returned
	err   error         // of the last stop, once gone is closed
}

// New begins to supervise: the first unit is launched at once. Close ends it.
func New[U Unit](o Options[U]) *Supervisor[U] {
	o.complete()
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	s := &Supervisor[U]{
		o: o, reset: make(chan chan struct{}), heard: make(chan heardHealth[U]), gone: make(chan struct{}),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.stop, s.hurry = context.WithCancel(context.Background())
	s.view.Store(&snapshot[U]{
		View: View{State: Starting, Since: time.Now()}, next: make(chan struct{}),
	})
	go newOwner(s).run()
	return s
}

// View says how the program is now.
func (s *Supervisor[U]) View() View { return s.view.Load().View }

// Unit returns the running unit. While one starts it waits, and so it does
// through a short pause; otherwise it returns an *UnavailableError at once. It
// returns ctx's error when that ends first.
func (s *Supervisor[U]) Unit(ctx context.Context) (U, error) {
	var none U
	for {
		v := s.view.Load()
		switch {
		case v.running && v.unit.Serving():
			return v.unit, nil
		case v.running: // the owner will know in a moment
		case v.State == Backoff:
			if wait := time.Until(v.RetryAt); wait > s.o.GapWait {
				return none, s.unavailable(v.View, wait)
			}
		case v.State != Starting:
			return none, s.unavailable(v.View, 0)
		}
		select {
		case <-v.next:
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
}

// Now returns the running unit, if there is one, without waiting.
func (s *Supervisor[U]) Now() (U, bool) {
	v := s.view.Load()
	return v.unit, v.running
}

// Settled waits while the program starts and says how it is then: whether a start
// succeeded is known before another is tried. It returns ctx's error when that
// ends first.
func (s *Supervisor[U]) Settled(ctx context.Context) (View, error) {
	for {
		v := s.view.Load()
		if v.State != Starting {
			return v.View, nil
		}
		select {
		case <-v.next:
		case <-ctx.Done():
			return v.View, ctx.Err()
		}
	}
}

func (s *Supervisor[U]) unavailable(v View, after time.Duration) error {
	return &UnavailableError{Name: s.o.Name, State: v.State, Cause: v.Cause, RetryAfter: after}
}

// Reset forgets past failures and starts the program now if it is in a pause, in
// quarantine or in Failed. It does nothing more to a running one. Calls that follow wait for
// the start.
func (s *Supervisor[U]) Reset() {
	taken := make(chan struct{})
	select {
	case s.reset <- taken:
		<-taken
	case <-s.gone:
	}
}

// heardHealth is what a unit said of itself to somebody else.
type heardHealth[U Unit] struct {
	unit   U
	health Health
	taken  chan struct{}
}

// Heard takes in what u said of itself when somebody else than the supervisor asked,
// so that View never contradicts what others were told. It says nothing of a unit
// that does not run any more. It returns when View tells, or when ctx ends.
func (s *Supervisor[U]) Heard(ctx context.Context, u U, h Health) {
	r := heardHealth[U]{u, h, make(chan struct{})}
	select {
	case s.heard <- r:
		<-r.taken
	case <-s.gone:
	case <-ctx.Done():
	}
}

// Close stops the program and returns when nothing of it is left. The running
// unit may end in order until ctx ends, at most Settings.StopTimeout; after that
// it is ended by force. Calls that use it fail: whoever wants them to finish
// waits before. Further calls wait for the first.
func (s *Supervisor[U]) Close(ctx context.Context) error {
	s.end()
	select {
	case <-s.gone:
	case <-ctx.Done():
		s.hurry()
		<-s.gone
	}
	s.hurry()
	return s.err
}
