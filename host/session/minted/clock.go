package minted

import (
	"sync"
	"time"
)

// jump is the difference between two clocks that is no drift.
const jump = time.Minute

// steady is a clock that never makes a session look older than it is. Providers
// stamp with wall clocks, which operators and time daemons set; so it is the earlier
// of the wall clock and one that only counts. A difference that lasts is accepted
// after patience, by when sessions that are still untouched have been so for that
// long on any clock: a machine that was suspended must not keep them for ever.
type steady struct {
	wall     func() time.Time
	counted  func() time.Duration
	patience time.Duration

	mu     sync.Mutex
	base   time.Time // what counted is added to
	apart  bool
	jumped time.Duration // when they were first apart, as counted
}

func newSteady(patience time.Duration) *steady {
	start := time.Now()
	s := &steady{
		wall:     func() time.Time { return time.Now().Round(0) }, // without the monotonic reading
		counted:  func() time.Duration { return time.Since(start) },
		patience: patience,
	}
	s.base = start.Round(0)
	return s
}

func (s *steady) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	wall, counted := s.wall(), s.counted()
	even := s.base.Add(counted)
	if wall.Sub(even).Abs() < jump {
		s.apart = false
	} else if !s.apart {
		s.apart, s.jumped = true, counted
	} else if counted-s.jumped >= s.patience {
		s.base, s.apart = wall.Add(-counted), false
		return wall
	}
	if wall.Before(even) {
		return wall
	}
	return even
}
