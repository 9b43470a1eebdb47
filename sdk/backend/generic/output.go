package generic

import (
	"context"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Capped is an Output that tells a run's RunIO that it started, once, passes the head
// of each stream on and counts the rest. It is safe for concurrent use.
type Capped struct {
	live   backend.RunIO
	limits backend.Limits
	// cancel ends the run: nobody listens.
	cancel context.CancelCauseFunc

	mu             sync.Mutex
	started        bool
	failed         error
	stdout, stderr int64
}

// NewCapped returns an output in front of live with the limits of StdoutBytes and
// StderrBytes. It calls cancel when nobody listens any more.
func NewCapped(live backend.RunIO, limits backend.Limits, cancel context.CancelCauseFunc) *Capped {
	return &Capped{live: live, limits: limits, cancel: cancel}
}

// Started passes on the first call only: a run has several steps.
func (o *Capped) Started() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.start()
}

func (o *Capped) start() error {
	if o.started {
		return o.failed
	}
	o.started = true
	return o.check(o.live.Started())
}

// WasStarted reports whether Started was told.
func (o *Capped) WasStarted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.started
}

// Stdout implements Output.
func (o *Capped) Stdout(p []byte) error {
	return o.write(p, &o.stdout, o.limits.StdoutBytes, o.live.Stdout)
}

// Stderr implements Output.
func (o *Capped) Stderr(p []byte) error {
	return o.write(p, &o.stderr, o.limits.StderrBytes, o.live.Stderr)
}

func (o *Capped) write(p []byte, total *int64, limit int64, pass func([]byte) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := min(int64(len(p)), max(0, limit-*total))
	*total += int64(len(p))
	if err := o.start(); err != nil || keep == 0 { // what writes has started
		return err
	}
	return o.check(pass(p[:keep]))
}

func (o *Capped) check(err error) error {
	if err != nil && o.failed == nil {
		o.failed = err
		o.cancel(err)
	}
	return o.failed
}

// Count adds what came to a result.
func (o *Capped) Count(res *backend.RunResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	res.StdoutBytes, res.StderrBytes = o.stdout, o.stderr
	res.StdoutTruncated = o.stdout > o.limits.StdoutBytes
	res.StderrTruncated = o.stderr > o.limits.StderrBytes
	res.Usage.BytesOut += min(o.stdout, o.limits.StdoutBytes) + min(o.stderr, o.limits.StderrBytes)
}
