package supervise

import "time"

// View is a supervised program at one moment. It is immutable.
type View struct {
	State State
	// Since is when the program came into State.
	Since time.Time
	// Cause explains every state but starting, ready and stopped; in these it is
	// how the last unit ended, if one did.
	Cause string
	// RetryAt is when the next start is due, in Backoff only.
	RetryAt time.Time
	// Starts counts the units that became ready, Restarts those after the first.
	Starts, Restarts int
	// LastEnd is how the last unit ended that ended by itself, and when. Nil when
	// none has.
	LastEnd *End
}

// End is an end that nobody asked for: a crash, a failed start, or a unit that
// did not answer and was ended.
type End struct {
	At time.Time
	// Uptime is how long it had been ready; zero when it never was.
	Uptime time.Duration
	Ended
}

// snapshot is a View and what only this package needs of it.
type snapshot[U Unit] struct {
	View
	unit    U
	running bool
	// next is closed when another snapshot takes this one's place.
	next chan struct{}
}
