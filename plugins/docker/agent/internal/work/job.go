//go:build linux

package work

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Job is one run: it goes on whoever follows it.
type Job struct {
	ID     string
	Manner agentwire.Manner
	Log    *Log

	host   *Host
	cancel context.CancelCauseFunc
	calls  *Calls // nil: it makes none

	mu      sync.Mutex
	started chan struct{} // closed when the program runs, or never will
	runs    bool
	done    chan struct{}
	// Below is set when done is closed.
	exit    agentwire.Exit
	changed []files.Entry
	deleted []string
	failed  error

	callers int         // foreground: who would miss it
	orphan  *time.Timer // ends it when there is none
}

// Started is closed when the program runs, or when it is known that it never will; then
// Runs tells which.
func (j *Job) Started() <-chan struct{} { return j.started }

// Runs reports whether the program was started.
func (j *Job) Runs() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.runs
}

// Calls are those of a run that makes calls, nil of others.
func (j *Job) Calls() *Calls { return j.calls }

// Done is closed when the run has ended.
func (j *Job) Done() <-chan struct{} { return j.done }

// Result is how it ended, once Done is closed. An error means that nothing ran.
func (j *Job) Result() (exit agentwire.Exit, changed []files.Entry, deleted []string, err error) {
	return j.exit, j.changed, j.deleted, j.failed
}

// Cancel stops the run.
func (j *Job) Cancel(message string) { j.cancel(&ended{stopCanceled, message}) }

// Join makes this a caller of the run; Leave must follow when the connection breaks.
func (j *Job) Join() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.callers++
	if j.orphan != nil {
		j.orphan.Stop()
		j.orphan = nil
	}
}

// Leave says that a caller's connection broke: the run ends if nobody takes over in time.
func (j *Job) Leave(rejoin time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.callers--; j.callers > 0 || j.orphan != nil {
		return
	}
	j.orphan = time.AfterFunc(max(0, rejoin), func() { j.Cancel("the caller went away") })
}

func (j *Job) markStarted() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.runs {
		j.runs = true
		close(j.started)
	}
}

// finish makes the result known.
func (j *Job) finish(err error) {
	j.Log.close()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failed = err
	if !j.runs {
		close(j.started)
	}
	if j.orphan != nil {
		j.orphan.Stop()
	}
	close(j.done)
}

// Job finds a run by its id.
func (h *Host) Job(id string) *Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jobs[id]
}

func (j *Job) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// register makes a run known, and forgets old ones.
func (h *Host) register(j *Job) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.jobs[j.ID]; old != nil && !old.ended() {
		return &agentwire.Fault{Kind: "conflict", Subject: "run", Text: "a run of this id is under way"}
	}
	if len(h.jobs) >= maxJobs && !h.forgetOne() {
		return &agentwire.Fault{Kind: "capacity", Text: "too many runs are under way in this sandbox"}
	}
	h.jobs[j.ID] = j
	return nil
}

// retain keeps a run that ended for a while, and forgets the oldest where there are too
// many or their output is too long.
func (h *Host) retain(j *Job, keep time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = append(h.over, j)
	var size int64
	for i := len(h.over) - 1; i >= 0; i-- {
		if size += h.over[i].Log.size(); size > keepOutput {
			for _, old := range h.over[:i+1] {
				h.forget(old)
			}
			break
		}
	}
	time.AfterFunc(keep, func() { h.Forget(j) })
}

// forgetOne forgets the oldest run that has ended; the caller holds mu.
func (h *Host) forgetOne() bool {
	if len(h.over) == 0 {
		return false
	}
	h.forget(h.over[0])
	return true
}

// Forget forgets a run that has ended.
func (h *Host) Forget(j *Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(j)
}

func (h *Host) forget(j *Job) {
	if h.jobs[j.ID] == j {
		delete(h.jobs, j.ID)
	}
	h.over = slices.DeleteFunc(slices.Clone(h.over), func(o *Job) bool { return o == j })
}

// EndAll ends whatever is under way, and returns when it has ended or takes too long.
func (h *Host) EndAll() {
	h.mu.Lock()
	var jobs []*Job
	for _, j := range h.jobs {
		jobs = append(jobs, j)
	}
	for _, t := range h.terms {
		go t.Kill()
	}
	h.mu.Unlock()
	for _, j := range jobs {
		j.Cancel("the agent is being replaced")
	}
	end := time.Now().Add(5 * time.Second)
	for n, _ := h.Busy(); n > 0 && time.Now().Before(end); n, _ = h.Busy() {
		time.Sleep(10 * time.Millisecond)
	}
}
