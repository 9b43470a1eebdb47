//go:build linux

package work

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/launch"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/tree"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/changes"
	"github.com/caisson-run/caisson/sdk/backend/control"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Source is where the content of inputs and stdin comes from.
type Source interface {
	// Input writes the content of the next input that is not inline to w. mode is the
	// file's, 0 when it is not known. The error is an *agentwire.Fault when the content
	// could not be had, and any other when the run cannot go on.
	Input(ctx context.Context, w io.Writer) (mode uint32, err error)
	// Stdin is read once all inputs were.
	Stdin(ctx context.Context) io.Reader
}

// Start begins a run and returns when its inputs are placed; the program itself may
// not run yet. ctx ends the waiting for turn and inputs only: from then on the job lives
// until its end. The run is stopped by Job.Cancel.
func (h *Host) Start(ctx context.Context, spec *agentwire.Run, from Source) (*Job, error) {
	background, cancel := context.WithCancelCause(context.Background())
	j := &Job{
		ID: spec.RunID, Manner: spec.Manner, Log: NewLog(spec.Limits.StdoutBytes, spec.Limits.StderrBytes),
		host: h, cancel: cancel, started: make(chan struct{}), done: make(chan struct{}),
	}
	if spec.Manner == agentwire.Foreground {
		j.callers = 1
	}
	if spec.Control {
		j.calls = newCalls()
	}
	if err := h.register(j); err != nil {
		return nil, err
	}
	h.enter()
	r := &running{Job: j, spec: spec, release: func() {}}
	if err := r.prepare(ctx, from); err != nil {
		return nil, r.abandon(err)
	}
	stdin, err := r.stdin(ctx, background, from)
	if err != nil {
		return nil, r.abandon(err)
	}
	if spec.Manner == agentwire.Detached && spec.TTL > 0 {
		ttl := time.AfterFunc(spec.TTL, func() { cancel(&ended{stopTimeout, "the run's time to live is over"}) })
		context.AfterFunc(background, func() { ttl.Stop() })
	}
	go func() {
		err := r.execute(background, stdin)
		if err == nil {
			r.collect()
		}
		j.finish(err)
		cancel(nil)
		r.cleanup()
		h.leave()
		keep := keepEnded
		if j.Manner == agentwire.Detached {
			keep = keepDetachedEnded
		}
		h.retain(j, keep)
	}()
	return j, nil
}

// running is a job under way.
type running struct {
	*Job
	spec    *agentwire.Run
	lease   *Lease
	dir     string
	before  *changes.Snapshot
	peak    int64
	release func() // gives the turn back
}

// prepare takes the turn and a user, and places what the program needs.
func (r *running) prepare(ctx context.Context, from Source) error {
	h := r.host
	if r.Manner == agentwire.Foreground {
		if err := h.takeTurn(ctx); err != nil {
			return err
		}
		r.release = h.giveTurn
	}
	lease, err := h.Pool.Take(r.Manner != agentwire.Detached)
	if err != nil {
		return &agentwire.Fault{Kind: "capacity", Text: err.Error()}
	}
	r.lease = lease
	if r.spec.Follows {
		if err := r.source(ctx, from); err != nil {
			return err
		}
	}
	for i := range r.spec.Inputs {
		if err := r.place(ctx, &r.spec.Inputs[i], from); err != nil {
			return err
		}
	}
	if r.spec.File != "" {
		if r.dir, err = h.programDir(lease.UID); err != nil {
			return err
		}
		own := &tree.FS{UID: lease.UID, GID: h.FS.GID, Programs: IsProgram}
		w, err := own.Create(ctx, r.dir+"/"+r.spec.File, tree.WriteOptions{})
		if err != nil {
			return err
		}
		defer w.Abort()
		if _, err = w.Write(r.spec.Source); err == nil {
			_, err = w.Commit(ctx)
		}
		if err != nil {
			return err
		}
		r.exit.BytesIn += int64(len(r.spec.Source))
	}
	if !r.spec.Collect.Skip {
		r.before = r.scan(ctx, nil)
	}
	return context.Cause(ctx)
}

// maxSource bounds a program's source, as sdk/backend does.
const maxSource = 64 << 20

// source reads the program.
func (r *running) source(ctx context.Context, from Source) error {
	var b bytes.Buffer
	k := &keeping{w: &limited{&b, maxSource}}
	if _, err := from.Input(ctx, k); err != nil {
		return err
	}
	r.spec.Source = b.Bytes()
	return k.err
}

// limited refuses more than n bytes.
type limited struct {
	w io.Writer
	n int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.n -= len(p); l.n < 0 {
		return 0, &agentwire.Fault{Kind: "invalid_request", Text: "the program is too long"}
	}
	return l.w.Write(p)
}

// maxDetachedStdin bounds the stdin of a detached run, which is read before it starts.
const maxDetachedStdin = 16 << 20

// stdin returns what the program reads. A caller of a detached run is gone by then.
func (r *running) stdin(ctx, background context.Context, from Source) (io.Reader, error) {
	switch {
	case !r.spec.Stdin:
		return nil, nil
	case r.Manner != agentwire.Detached:
		return from.Stdin(background), nil
	}
	b, err := io.ReadAll(io.LimitReader(from.Stdin(ctx), maxDetachedStdin+1))
	if err == nil && len(b) > maxDetachedStdin {
		err = &agentwire.Fault{Kind: "capacity", Text: fmt.Sprintf("stdin of a detached run is longer than %d bytes", maxDetachedStdin)}
	}
	return bytes.NewReader(b), err
}

// abandon ends a run that could not begin.
func (r *running) abandon(err error) error {
	r.cleanup()
	r.finish(err)
	r.host.Forget(r.Job)
	r.host.leave()
	r.cancel(nil)
	return err
}

// place puts one input where it belongs. An optional one that cannot be placed is noted.
func (r *running) place(ctx context.Context, in *agentwire.Input, from Source) error {
	w, placeErr := r.host.FS.Create(ctx, in.Path, tree.WriteOptions{Mode: in.Mode, SHA256: in.SHA256})
	var out io.Writer = io.Discard // it is read to its end whatever happens
	if placeErr == nil {
		defer w.Abort()
		out = w
	}
	if in.Inline {
		if placeErr == nil {
			_, placeErr = w.Write(in.Data)
		}
	} else {
		keep := &keeping{w: out}
		mode, err := from.Input(ctx, keep)
		var fault *agentwire.Fault
		switch {
		case errors.As(err, &fault):
			placeErr = cmp.Or(placeErr, err)
		case err != nil:
			return err
		case keep.err != nil && placeErr == nil:
			placeErr = keep.err
		case placeErr == nil:
			w.SetMode(mode)
		}
	}
	if placeErr == nil {
		_, placeErr = w.Commit(ctx)
	}
	if placeErr == nil {
		r.exit.BytesIn += w.Size()
		return nil
	}
	if in.Optional {
		r.exit.MissingInputs = append(r.exit.MissingInputs, in.Path)
		return nil
	}
	return inputError(in.Path, placeErr)
}

// keeping takes everything and remembers the first error of the writer below.
type keeping struct {
	w   io.Writer
	err error
}

func (k *keeping) Write(p []byte) (int, error) {
	if k.err == nil {
		_, k.err = k.w.Write(p)
	}
	return len(p), nil
}

// execute runs the steps. An error means that nothing ran.
func (r *running) execute(ctx context.Context, stdin io.Reader) error {
	lim := r.spec.Limits
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := control.NewClock(lim.Wall, func() { cancel(&ended{stopTimeout, ""}) })
	defer clock.Stop()
	calls, end, err := r.offer(ctx, cancel, clock)
	if err != nil {
		return err
	}
	defer end()
	var found watched
	watching, stop := context.WithCancel(ctx)
	watcher := make(chan struct{})
	go func() {
		defer close(watcher)
		r.host.watch(watching, cancel, r.lease, lim, &found)
	}()
	defer func() { stop(); <-watcher; r.exit.PeakMemoryBytes = max(r.peak, found.peak.Load()) }()
	env := r.host.environment(r.spec.Env, r.dir)
	res := &r.exit
	for i, step := range r.spec.Steps {
		c := &command{lease: r.lease, log: r.Log, started: r.markStarted}
		c.spec = launch.Spec{UID: r.lease.UID, GID: r.host.FS.GID, Env: env, Dir: cmp.Or(r.spec.Dir, files.DataDir)}
		c.spec.Processes, c.spec.FileBytes, c.spec.CPUSeconds = limits(lim)
		for _, a := range step.Argv {
			if r.dir != "" {
				a = strings.ReplaceAll(a, "{dir}", r.dir)
			}
			c.spec.Argv = append(c.spec.Argv, a)
		}
		c.spec.Argv = append(c.spec.Argv, step.Args...)
		if i == len(r.spec.Steps)-1 {
			c.stdin = stdin // build steps read none of it
			if len(calls) > 0 {
				c.spec.Env = r.host.environment(slices.Concat(r.spec.Env, calls), r.dir)
			}
		}
		then := measure()
		res.Step = i
		out, err := r.host.run(ctx, c)
		if err != nil {
			if err = notStarted(c.spec.Argv[0], err); i == 0 {
				return err
			}
			r.Log.append(stderr, []byte(err.Error()+"\n"))
			res.Stop, res.ExitCode, res.Message = stopExit, 127, err.Error()
			break
		}
		then.explain(&out, r.lease, lim)
		res.Stop, res.ExitCode, res.Message = out.stop, out.exit.Code, out.message
		if out.stop != stopExit && !out.failed {
			res.ExitCode = -1
		} else if out.exit.Signal != 0 {
			res.Signal = unix.SignalName(out.exit.Signal)
		}
		if res.Stop != stopExit || res.ExitCode != 0 {
			break
		}
	}
	res.Wall = clock.Spent()
	res.CPU, r.peak, _ = r.lease.used()
	if res.Stop == stopCPU { // what was killed just now may not be counted yet
		res.CPU = max(res.CPU, lim.CPU)
	}
	total, kept := r.Log.counts()
	res.StdoutBytes, res.StderrBytes = total[stdout], total[stderr]
	res.StdoutTruncated, res.StderrTruncated = total[stdout] > kept[stdout], total[stderr] > kept[stderr]
	res.BytesOut += kept[stdout] + kept[stderr]
	return nil
}

// scan reads the tree; nil when that fails. After the run no more files are read than
// can be reported.
func (r *running) scan(ctx context.Context, before *changes.Snapshot) *changes.Snapshot {
	c := changes.Defaults(r.spec.Collect)
	s, err := r.host.FS.Scan(ctx, r.host.Index, changes.ScanOptions{
		Exclude: c.Exclude, MaxDigestBytes: c.MaxFileBytes, Before: before, MaxNew: c.MaxFiles,
	})
	if err != nil {
		return nil
	}
	return s
}

// collect finds what changed.
func (r *running) collect() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	_ = r.host.FS.Mend(ctx, files.DataDir) // what stays closed is not reported
	slices.Sort(r.exit.MissingInputs)
	if r.spec.Collect.Skip {
		return
	}
	var after *changes.Snapshot
	if r.before != nil {
		after = r.scan(ctx, r.before)
	}
	d := changes.Diff(r.before, after, r.spec.Collect)
	for i := range d.Changed {
		d.Changed[i].Mode = tree.Mode(d.Changed[i].Mode)
		r.exit.BytesOut += d.Changed[i].Size
	}
	r.changed, r.deleted = d.Changed, d.Deleted
	r.exit.Skipped, r.exit.CollectFailed = d.Skipped, d.Failed
}

// cleanup removes what the run left, and lets the next one begin.
func (r *running) cleanup() {
	if r.lease != nil {
		r.host.removeProgramDir(r.lease.UID, r.dir)
		r.host.end(r.lease)
	}
	r.release()
}

// inputError says which input could not be placed, and keeps the kind of the reason.
func inputError(path string, err error) error {
	f := Fault(err)
	return &agentwire.Fault{Kind: f.Kind, Subject: f.Subject, Text: "input " + strconv.Quote(path) + ": " + f.Text}
}
