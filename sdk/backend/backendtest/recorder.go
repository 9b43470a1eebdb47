package backendtest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

// recorder is the RunIO of a test. It keeps what comes and checks the rules
// about when it may come.
type recorder struct {
	t *testing.T
	// inputs are the chunked inputs by index.
	inputs map[int]io.Reader
	stdin  io.Reader
	// started and stdoutHook are called, when set, as things come; an error from
	// them is what RunIO returns.
	onStarted func() error
	onStdout  func(all string) error
	onCall    func(ctx context.Context, call backend.ControlCall) (backend.ControlReply, error)

	// attached runs began elsewhere: their output needs no Started here.
	attached bool

	busy atomic.Bool
	over atomic.Bool

	mu             sync.Mutex
	asked          []int
	starts         int
	stdout, stderr bytes.Buffer
}

var _ backend.RunIO = (*recorder)(nil)

// enter checks that callbacks come one at a time, and none after the run.
func (r *recorder) enter(what string) func() {
	if r.over.Load() {
		r.t.Errorf("%s after Run returned", what)
	}
	if !r.busy.CompareAndSwap(false, true) {
		r.t.Errorf("%s during another callback", what)
		return func() {}
	}
	return func() { r.busy.Store(false) }
}

func (r *recorder) Input(i int) (io.Reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.starts > 0 {
		r.t.Errorf("input %d was asked for after Started", i)
	}
	if n := len(r.asked); n > 0 && r.asked[n-1] >= i {
		r.t.Errorf("input %d was asked for after input %d", i, r.asked[n-1])
	}
	r.asked = append(r.asked, i)
	in, ok := r.inputs[i]
	if !ok {
		r.t.Errorf("input %d is not a chunked input", i)
		return strings.NewReader(""), nil
	}
	return in, nil
}

func (r *recorder) Stdin() io.Reader {
	if r.stdin == nil {
		return strings.NewReader("")
	}
	return r.stdin
}

func (r *recorder) Started() error {
	defer r.enter("Started")()
	r.mu.Lock()
	r.starts++
	n := r.starts
	r.mu.Unlock()
	if n > 1 {
		r.t.Errorf("Started was called %d times", n)
	}
	if r.onStarted != nil {
		return r.onStarted()
	}
	return nil
}

func (r *recorder) Stdout(p []byte) error {
	defer r.enter("Stdout")()
	r.mu.Lock()
	r.stdout.Write(p)
	all := r.stdout.String()
	if r.starts == 0 && !r.attached {
		r.t.Error("Stdout before Started")
	}
	r.mu.Unlock()
	if r.onStdout != nil {
		return r.onStdout(all)
	}
	return nil
}

func (r *recorder) Stderr(p []byte) error {
	defer r.enter("Stderr")()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stderr.Write(p)
	if r.starts == 0 && !r.attached {
		r.t.Error("Stderr before Started")
	}
	return nil
}

func (r *recorder) Call(ctx context.Context, call backend.ControlCall) (backend.ControlReply, error) {
	if r.onCall == nil {
		r.t.Errorf("a call that was not offered: %q", call.Name)
		return backend.ControlReply{Error: "no"}, nil
	}
	return r.onCall(ctx, call)
}

// outcome is what a run of a test came to.
type outcome struct {
	backend.RunResult
	stdout, stderr string
	starts         int
}

// changed returns the paths of changed files below DataDir.
func (o outcome) changed() []string {
	out := []string{}
	for _, e := range o.Changed {
		out = append(out, strings.TrimPrefix(e.Path, backend.DataDir+"/"))
	}
	return out
}

// do carries out a run and checks what holds for every result.
func (k *kit) do(t *testing.T, spec backend.RunSpec, rec *recorder) outcome {
	t.Helper()
	o, err := k.try(t, t.Context(), spec, rec)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return o
}

// try is do for runs that may fail.
func (k *kit) try(t *testing.T, ctx context.Context, spec backend.RunSpec, rec *recorder) (outcome, error) {
	t.Helper()
	if rec == nil {
		rec = &recorder{}
	}
	rec.t = t
	var res backend.RunResult
	var err error
	k.within(t, "Run", func() { res, err = k.b.Run(ctx, spec, rec) })
	rec.over.Store(true)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	o := outcome{RunResult: res, stdout: rec.stdout.String(), stderr: rec.stderr.String(), starts: rec.starts}
	if err != nil {
		return o, err
	}
	if err := spec.CheckResult(res); err != nil {
		t.Errorf("the result breaks its contract: %v", err)
	}
	if o.starts != 1 && res.Stop != backend.StopCanceled {
		t.Errorf("Started was called %d times", o.starts)
	}
	if int64(len(o.stdout)) > res.StdoutBytes || int64(len(o.stderr)) > res.StderrBytes {
		t.Errorf("%d and %d bytes of output came, %d and %d are counted", len(o.stdout), len(o.stderr), res.StdoutBytes, res.StderrBytes)
	}
	if res.Usage.Wall <= 0 {
		t.Error("Usage.Wall is missing")
	}
	return o, nil
}

// run runs the probe, which must end by itself with status 0.
func (k *kit) run(t *testing.T, ref backend.Ref, ops ...string) outcome {
	t.Helper()
	o := k.do(t, k.runSpec(ref, ops...), nil)
	if o.Stop != backend.StopExit || o.ExitCode != 0 {
		t.Fatalf("the probe ended with %s, status %d %s; stderr %s", o.Stop, o.ExitCode, o.Message, show(o.stderr))
	}
	return o
}
