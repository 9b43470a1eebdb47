// Package supervise keeps one program running: it starts it, looks at its
// health, starts it again with growing pauses when it ends, and gives up, until
// an operator says otherwise, when it ends too often.
//
// One goroutine owns each supervised program. Everybody else reads an immutable
// [View], or asks for the running [Unit] and waits, within bounds, while there
// is none. The package knows no protocol: what a unit is, how one starts and
// what healthy means are the caller's.
package supervise

import (
	"context"
	"fmt"
	"time"
)

// State is where a program is in its life.
type State string

const (
	// Starting: a unit was launched and is not ready for its first call.
	Starting State = "starting"
	// Ready: a unit runs and says that it is ready.
	Ready State = "ready"
	// Degraded: a unit runs and serves calls, and either says that it is not
	// ready or did not answer the last health checks.
	Degraded State = "degraded"
	// Backoff: the last unit ended or did not start; the next start is at
	// View.RetryAt.
	Backoff State = "backoff"
	// Quarantined: it ended too often. Only Reset starts it again.
	Quarantined State = "quarantined"
	// Failed: no start can succeed until what it is started from changes. It starts
	// when that has changed, or on Reset.
	Failed State = "failed"
	// Draining: Close was called, and the last unit is being stopped.
	Draining State = "draining"
	// Stopped: Close has returned. Nothing is left.
	Stopped State = "stopped"
)

// Unit is one run of a program, most often a process. Its methods are safe for
// concurrent use.
type Unit interface {
	// Done is closed when the unit has ended, for whatever reason.
	Done() <-chan struct{}
	// Serving is false from the moment no call can succeed any more. Done follows.
	Serving() bool
	// Ended describes how, once Done is closed.
	Ended() Ended
	// Stop ends the unit and returns when nothing of it is left. When ctx ends it
	// is ended by force. Stopping an ended unit is success.
	Stop(ctx context.Context) error
}

// Ended is how a unit ended.
type Ended struct {
	// Cause is one line for people, the exit status first.
	Cause string
	// Lines are the last that it logged, oldest first.
	Lines []string
}

// Health is what a unit says about itself.
type Health struct {
	Ready bool
	// Reason explains why it is not ready.
	Reason string
}

// Settings of a supervisor. Zero members mean the defaults.
type Settings struct {
	// CheckEvery is the time between two health checks (5 s), CheckTimeout how long
	// one may take (2 s). A unit that fails Strikes (3) of them in a row is ended
	// and started again.
	CheckEvery, CheckTimeout time.Duration
	Strikes                  int
	// UnreadyEvery (250 ms) takes the place of CheckEvery while a unit says that it is
	// not ready.
	UnreadyEvery time.Duration
	// MinPause and MaxPause bound the pause before a start (500 ms, 60 s). There
	// is none when a unit ends that was the first, or that served for Steady (2
	// min); a failed start is always followed by one.
	MinPause, MaxPause, Steady time.Duration
	// Crashes (5) ends and failed starts within Window (5 min) are too many.
	Crashes int
	Window  time.Duration
	// GapWait is how long a call waits through a pause (2 s); one that would wait
	// longer is refused at once.
	GapWait time.Duration
	// StopTimeout is how long an orderly stop may take (5 s).
	StopTimeout time.Duration
}

func (s *Settings) complete() {
	for _, d := range []struct {
		p *time.Duration
		v time.Duration
	}{
		{&s.CheckEvery, 5 * time.Second},
		{&s.CheckTimeout, 2 * time.Second},
		{&s.UnreadyEvery, 250 * time.Millisecond},
		{&s.MinPause, 500 * time.Millisecond},
		{&s.MaxPause, time.Minute},
		{&s.Steady, 2 * time.Minute},
		{&s.Window, 5 * time.Minute},
		{&s.GapWait, 2 * time.Second},
		{&s.StopTimeout, 5 * time.Second},
	} {
		if *d.p == 0 {
			*d.p = d.v
		}
	}
	if s.Strikes == 0 {
		s.Strikes = 3
	}
	if s.Crashes == 0 {
		s.Crashes = 5
	}
}

// ImpossibleError is what a launch returns when the next one would fail in the same
// way: nothing is tried again until Changed, which is asked every Settings.CheckEvery
// and must not block, says that what the program is started from is not what it was.
type ImpossibleError struct {
	Err     error
	Changed func() bool
}

func (e *ImpossibleError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *ImpossibleError) Unwrap() error { return e.Err }

// UnavailableError says that no unit runs and why. A caller may try again after
// RetryAfter, when that is not zero.
type UnavailableError struct {
	Name       string
	State      State
	Cause      string
	RetryAfter time.Duration
}

func (e *UnavailableError) Error() string {
	s := fmt.Sprintf("plugin %q is not running (%s)", e.Name, e.State)
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	if e.State == Quarantined {
		s += "; mend it, then run caisson plugin reset " + e.Name
	}
	return s
}
