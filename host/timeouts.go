package host

import "time"

// Every named timeout of the host in one place. They are not settings: what an
// operator may change is in Config.
const (
	// startTimeout bounds a plugin from launch to readiness, unless its manifest
	// says otherwise.
	startTimeout = 30 * time.Second
	// stopTimeout bounds the stop of one plugin process after it has drained.
	stopTimeout = 5 * time.Second
	// fitTimeout bounds what a version is looked at for before it serves, and
	// readyPoll is how often it is asked meanwhile.
	fitTimeout = 2 * time.Minute
	readyPoll  = 100 * time.Millisecond
	// minStayPoll is how soon a version that stays is asked for its sandboxes again,
	// and maxStayPoll what that grows to: what is deleted through this host is noticed
	// at once, and the rest may be there for days.
	minStayPoll = 5 * time.Second
	maxStayPoll = time.Minute
	// acceptTimeout is how long whoever accepts a swap waits for who watches it.
	acceptTimeout = time.Second
	// readyTimeout bounds a readiness check.
	readyTimeout = 5 * time.Second
	// listTimeout bounds the first question to a language table.
	listTimeout = 10 * time.Second
)
