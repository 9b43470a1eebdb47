package backendtest

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func (k *kit) stopChecks() []check {
	return []check{
		{"timeout", k.stopTimeout},
		{"timeout_of_all_steps", k.stopTimeoutOfAllSteps},
		{"cancel", k.stopCancel},
		{"deadline", k.stopDeadline},
		{"cancel_before", k.stopCancelBefore},
		{"cancel_waiting_for_input", k.stopCancelWaiting},
		{"listener_gone", k.stopListenerGone},
		{"listener_gone_at_start", k.stopListenerGoneAtStart},
		{"goes_on", k.stopGoesOn},
	}
}

// endless prints, writes a file, and never ends by itself.
var endless = []string{"out", "begun", "err", "so far", "write", "partial.txt", "x", "spin"}

// wantStopped checks the result of a run of endless.
func wantStopped(t *testing.T, o outcome, reason backend.StopReason) {
	t.Helper()
	if o.Stop != reason || o.ExitCode != -1 {
		t.Errorf("stop %q, status %d, want %q, -1", o.Stop, o.ExitCode, reason)
	}
	if o.stdout != "begun" || o.stderr != "so far" {
		t.Errorf("stdout %q, stderr %q: what was printed before the stop is missing", o.stdout, o.stderr)
	}
	wantChanged(t, o, "partial.txt")
}

// stopTimeout: a timeout is a result, with what there was until then.
func (k *kit) stopTimeout(t *testing.T) {
	spec := k.runSpec(k.sandbox(t), endless...)
	var o outcome
	k.shortly(func(limit time.Duration) bool {
		spec.Limits.Wall = limit
		o = k.do(t, spec, nil)
		return k.wrote(t, spec.Ref)
	})
	wantStopped(t, o, backend.StopTimeout)
	if limit := spec.Limits.Wall; o.Usage.Wall < limit/2 {
		t.Errorf("a run of %v used %v", limit, o.Usage.Wall)
	}
}

// shortly makes a run that is to meet its limit, with more time when its program had too
// little to come that far: machines are slow at times.
func (k *kit) shortly(run func(limit time.Duration) (begun bool)) {
	for limit := k.ShortRun; !run(limit) && limit < 4*k.ShortRun; limit *= 2 {
	}
}

// wrote reports whether an endless program has come to its loop, whatever the result says.
func (k *kit) wrote(t *testing.T, ref backend.Ref) bool {
	_, err := k.b.Stat(t.Context(), ref, data("partial.txt"))
	return err == nil
}

// stopTimeoutOfAllSteps: the limit is that of the run, not of each step.
func (k *kit) stopTimeoutOfAllSteps(t *testing.T) {
	spec := k.runSpec(k.sandbox(t))
	var o outcome
	k.shortly(func(limit time.Duration) bool {
		spec.Limits.Wall = limit
		// The first ends within the limit, and all of them never do.
		part := backend.Step{Argv: k.Probe.Argv, Args: []string{"sleep", millis(limit / 5)}}
		spec.Steps = slices.Repeat([]backend.Step{part}, 6)
		o = k.do(t, spec, nil)
		return o.Step > 0
	})
	if o.Stop != backend.StopTimeout || o.Step == 0 {
		t.Errorf("stop %q in step %d, want timeout after step 0", o.Stop, o.Step)
	}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// stopCancel: who cancels still gets the result.
func (k *kit) stopCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ref := k.sandbox(t)
	rec := &recorder{onStdout: func(string) error {
		k.cancelOnceWritten(t, ref, cancel)
		return nil
	}}
	o, err := k.try(t, ctx, k.runSpec(ref, endless...), rec)
	if err != nil {
		t.Fatalf("a cancelled run is a result, not an error: %v", err)
	}
	wantStopped(t, o, backend.StopCanceled)
}

// cancelOnceWritten cancels when the endless program has written its file.
func (k *kit) cancelOnceWritten(t *testing.T, ref backend.Ref, cancel func()) {
	go func() {
		defer cancel()
		k.await(t, "file of the program", func() bool {
			e, err := k.b.Stat(context.WithoutCancel(t.Context()), ref, data("partial.txt"))
			return err == nil && e.Size == 1
		})
	}()
}

// stopDeadline: so does who had a deadline.
func (k *kit) stopDeadline(t *testing.T) {
	spec := k.runSpec(k.sandbox(t), endless...)
	var o outcome
	k.shortly(func(limit time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		var err error
		if o, err = k.try(t, ctx, spec, nil); err != nil {
			t.Fatalf("a run whose caller has a deadline is a result, not an error: %v", err)
		}
		return k.wrote(t, spec.Ref)
	})
	wantStopped(t, o, backend.StopCanceled)
}

func (k *kit) stopCancelBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, err := k.try(t, ctx, k.runSpec(k.sandbox(t), "out", "ran"), nil)
	switch {
	case o.starts > 0:
		t.Error("a run that was cancelled before it began started")
	case err != nil && !errors.Is(err, context.Canceled):
		t.Errorf("err = %v, want context.Canceled", err)
	case err == nil && o.Stop != backend.StopCanceled:
		t.Errorf("stop %q", o.Stop)
	}
}

// stopCancelWaiting: cancelling works while an input is still awaited.
func (k *kit) stopCancelWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	spec := k.runSpec(k.sandbox(t), "out", "ran")
	spec.Inputs = []backend.Input{{Path: data("in"), Chunked: true}}
	asked := make(chan struct{})
	rec := &recorder{inputs: map[int]io.Reader{0: &stuck{asked: asked, end: ctx.Done()}}}
	go func() {
		<-asked
		cancel()
	}()
	o, err := k.try(t, ctx, spec, rec)
	if o.starts > 0 {
		t.Error("it started without its input")
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
}

// stuck says when it is read and ends only with the caller.
type stuck struct {
	asked chan struct{}
	end   <-chan struct{}
	once  sync.Once
}

func (r *stuck) Read([]byte) (int, error) {
	r.once.Do(func() { close(r.asked) })
	<-r.end
	return 0, context.Canceled
}

// stopListenerGone: when nobody takes the output the program is stopped.
func (k *kit) stopListenerGone(t *testing.T) {
	ref := k.sandbox(t)
	rec := &recorder{onStdout: func(string) error { return errListener }}
	o, err := k.try(t, t.Context(), k.runSpec(ref, "out", "x", "spin"), rec)
	if err == nil && o.Stop != backend.StopCanceled {
		t.Errorf("stop %q", o.Stop)
	}
	if err != nil && !errors.Is(err, errListener) {
		t.Errorf("err = %v", err)
	}
}

func (k *kit) stopListenerGoneAtStart(t *testing.T) {
	rec := &recorder{onStarted: func() error { return errListener }}
	o, err := k.try(t, t.Context(), k.runSpec(k.sandbox(t), "spin"), rec)
	if err == nil && o.Stop != backend.StopCanceled {
		t.Errorf("stop %q: %+v", o.Stop, o)
	}
	if err != nil && !errors.Is(err, errListener) {
		t.Errorf("err = %v", err)
	}
}

// stopGoesOn: a sandbox is as usable after a stop as before.
func (k *kit) stopGoesOn(t *testing.T) {
	ref := k.sandbox(t)
	spec := k.runSpec(ref, endless...)
	k.shortly(func(limit time.Duration) bool {
		spec.Limits.Wall = limit
		k.do(t, spec, nil)
		return k.wrote(t, ref)
	})
	if o := k.run(t, ref, "show", "partial.txt", "out", "|on"); o.stdout != "x|on" {
		t.Errorf("stdout %q", o.stdout)
	}
}
