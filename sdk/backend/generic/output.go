package generic

import (
	"context"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend"
)

// output passes the head of each stream on and counts the rest.
type output struct {
	live   backend.RunIO
	limits backend.Limits
	// cancel ends the run: nobody listens.
	cancel context.CancelCauseFunc

	mu             sync.Mutex
	started        bool
	failed         error
	stdout, stderr int64
}

func newOutput(live backend.RunIO, limits backend.Limits, cancel context.CancelCauseFunc) *output {
	return &output{live: live, limits: limits, cancel: cancel}
}

// Started passes on the first call only: a run has several steps.
func (o *output) Started() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.start()
}

func (o *output) start() error {
	if o.started {
		return o.failed
	}
	o.started = true
	return o.check(o.live.Started())
}

func (o *output) wasStarted() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.started
}

func (o *output) Stdout(p []byte) error {
	return o.write(p, &o.stdout, o.limits.StdoutBytes, o.live.Stdout)
}

func (o *output) Stderr(p []byte) error {
	return o.write(p, &o.stderr, o.limits.StderrBytes, o.live.Stderr)
}

func (o *output) write(p []byte, total *int64, limit int64, pass func([]byte) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := min(int64(len(p)), max(0, limit-*total))
	*total += int64(len(p))
	if err := o.start(); err != nil || keep == 0 { // what writes has started
		return err
	}
	return o.check(pass(p[:keep]))
}

func (o *output) check(err error) error {
	if err != nil && o.failed == nil {
		o.failed = err
		o.cancel(err)
	}
	return o.failed
}

func (o *output) count(res *backend.RunResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	res.StdoutBytes, res.StderrBytes = o.stdout, o.stderr
	res.StdoutTruncated = o.stdout > o.limits.StdoutBytes
	res.StderrTruncated = o.stderr > o.limits.StderrBytes
	res.Usage.BytesOut += min(o.stdout, o.limits.StdoutBytes) + min(o.stderr, o.limits.StderrBytes)
}
