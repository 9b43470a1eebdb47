package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
	"github.com/caisson-run/caisson/sdk/backend/control"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// Defaults of a run that sets no limit (docs/operators.md).
const (
	defaultWall   = 30 * time.Second
	defaultOutput = 1 << 20
	// collectTimeout bounds the search for changes, which happens even when the
	// caller is gone.
	collectTimeout = 30 * time.Second
)

// programDir is what language.Dir ("{dir}") stands for here.
const programDir = interp.EntryDir

// Run carries out one unit of work.
func (b *Backend) Run(ctx context.Context, spec backend.RunSpec, rio backend.RunIO) (backend.RunResult, error) {
	const op = "Run"
	if err := spec.Check(); err != nil {
		return backend.RunResult{}, err
	}
	if spec.Dir != "" && spec.Dir != backend.DataDir {
		return backend.RunResult{}, backend.Errorf(backend.KindUnsupported, op, "dir: programs of the embedded backend start in %s", backend.DataDir)
	}
	sb, err := b.use(op, spec.Ref)
	if err != nil {
		return backend.RunResult{}, err
	}
	defer sb.Release()
	defer sb.Touch()
	caller := ctx
	ctx, done, err := sb.Turn(ctx)
	if err != nil {
		return backend.RunResult{}, sandboxError(op, err)
	}
	defer done()
	r := &run{b: b, sb: sb, spec: spec, io: rio}
	defer r.clean()
	defer sb.Quota.Lower(spec.Limits.DiskBytes, spec.Limits.DiskFiles)()
	if err := r.prepare(ctx); err != nil {
		return backend.RunResult{}, err
	}
	if err := r.steps(ctx); err != nil {
		return backend.RunResult{}, err
	}
	if sb.Deleted() {
		r.result.Stop, r.result.Message = backend.StopLost, "the sandbox was deleted"
		return r.result, nil
	}
	r.collect(context.WithoutCancel(caller))
	return r.result, nil
}

// run is the state of one unit of work.
type run struct {
	b    *Backend
	sb   *store.Sandbox
	spec backend.RunSpec
	io   backend.RunIO

	scratch *store.Scratch
	before  *changes.Snapshot
	out     capped
	err     capped
	result  backend.RunResult

	// Of a run that makes calls; nil for others.
	calls  *control.Run
	clock  *control.Clock
	beside *guest.Beside
}

// prepare makes the run's directories, places inputs and remembers what there
// was. Nothing has run when it fails.
func (r *run) prepare(ctx context.Context) error {
	r.out = capped{max: orElse(r.spec.Limits.StdoutBytes, defaultOutput), to: r.io.Stdout}
	r.err = capped{max: orElse(r.spec.Limits.StderrBytes, defaultOutput), to: r.io.Stderr}
	if err := r.makeDirs(); err != nil {
		return err
	}
	if err := r.scratch.Program(r.spec.Program.File, r.spec.Program.Source); err != nil {
		return fileError("Run", "program.file", err)
	}
	r.result.Usage.BytesIn = int64(len(r.spec.Program.Source))
	for i, in := range r.spec.Inputs {
		if err := r.input(ctx, i, in); err != nil {
			return err
		}
	}
	if !r.spec.Collect.Skip {
		r.before = r.scan(ctx, nil)
	}
	return ctx.Err()
}

// makeDirs takes the directories that live as long as the run.
func (r *run) makeDirs() (err error) {
	r.scratch, err = r.b.store.Scratch()
	return sandboxError("Run", err)
}

// steps runs the plan until a step does not exit 0.
func (r *run) steps(ctx context.Context) error {
	// An interpreter that is not compiled yet is not the program's doing, so waiting
	// for it is not part of its time.
	for _, step := range r.spec.Steps {
		if err := r.b.o.Engine.Prepare(ctx, argv(step)[0]); err != nil && !errors.Is(err, interp.ErrUnknownInterpreter) {
			return engineError(ctx, err)
		}
	}
	wall := orElse(int64(r.spec.Limits.Wall), int64(defaultWall))
	ctx, end := r.timed(ctx, time.Duration(wall))
	defer end(nil)
	cancel := func() { end(context.Canceled) }
	var once sync.Once
	var refused error
	start := func() {
		once.Do(func() {
			if refused = r.io.Started(); refused != nil {
				cancel()
			}
		})
	}
	r.out.fail, r.err.fail = cancel, cancel
	started := false
	refusals := func() uint64 { return r.sb.Quota.Refusals() + r.scratch.TmpQuota.Refusals() }
	for i, step := range r.spec.Steps {
		p := interp.Program{
			Argv:        argv(step),
			Env:         r.env(),
			Stdout:      &r.out,
			Stderr:      &r.err,
			Data:        interp.Mount{Root: r.sb.Data, Quota: r.sb.Quota},
			Tmp:         interp.Mount{Root: r.scratch.Tmp, Quota: r.scratch.TmpQuota},
			Entry:       r.scratch.Entry,
			MemoryBytes: r.spec.Limits.MemoryBytes,
			FuelLimit:   r.fuelLeft(),
			Started:     start,
		}
		if i == len(r.spec.Steps)-1 {
			if r.spec.Stdin {
				p.Stdin = r.io.Stdin()
			}
			r.offer(&p)
		}
		before := refusals()
		res, err := r.b.o.Engine.Run(ctx, p)
		if err != nil {
			if started { // an earlier step ran: this is its result's end
				r.result.ExitCode, r.result.Message = -1, "a later step could not start"
				r.result.Stop, _ = generic.StopOf(ctx)
				break
			}
			return engineError(ctx, err)
		}
		started = true
		r.result.Step = i
		r.finish(ctx, res)
		if res.Reason == interp.ReasonExit && res.Code != 0 && refusals() != before {
			r.result.Stop, r.result.Message = backend.StopDisk, "the sandbox stores as much as it may"
		}
		if res.Reason != interp.ReasonExit || res.Code != 0 {
			break
		}
	}
	if refused != nil {
		return fmt.Errorf("start was refused: %w", refused)
	}
	if r.clock != nil {
		r.result.Usage.Wall = r.clock.Spent()
	}
	r.result.StdoutBytes, r.result.StdoutTruncated = r.out.total, r.out.total > r.out.max
	r.result.StderrBytes, r.result.StderrTruncated = r.err.total, r.err.total > r.err.max
	r.result.Usage.BytesOut = r.out.total + r.err.total
	return nil
}

// fuelLeft is what the limit of processor time leaves to the next step, at the
// nominal rate; 0 is no limit.
func (r *run) fuelLeft() int64 {
	if r.spec.Limits.CPU <= 0 {
		return 0
	}
	// A step is only run after one that ended by itself, within the limit but for
	// what is charged between two looks at it.
	return max(interp.Fuel(r.spec.Limits.CPU)-int64(r.result.Usage.Fuel), 1)
}

// finish enters the outcome of one step.
func (r *run) finish(ctx context.Context, res interp.Result) {
	out := &r.result
	out.Usage.Wall += res.WallTime
	out.Usage.Fuel += uint64(res.Fuel)
	out.Usage.CPU = interp.CPUTime(int64(out.Usage.Fuel))
	out.Usage.PeakMemoryBytes = max(out.Usage.PeakMemoryBytes, res.PeakMemoryBytes)
	out.ExitCode = -1
	switch res.Reason {
	case interp.ReasonExit:
		out.Stop, out.ExitCode = backend.StopExit, res.Code
		if res.Err != nil { // the interpreter itself gave up
			out.Signal, out.Message = signals[res.Code], res.Err.Error()
		}
	case interp.ReasonMemory:
		out.Stop = backend.StopMemory
	case interp.ReasonCPU:
		out.Stop = backend.StopCPU
	default:
		out.Stop, out.Message = generic.StopOf(ctx)
	}
}

var signals = map[int]string{134: "SIGABRT", 136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV"}

// engineError types a run that did not start.
func engineError(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), generic.ErrWall) {
		return ctx.Err()
	}
	kind := backend.KindInternal
	switch {
	case errors.Is(err, interp.ErrUnknownInterpreter), errors.Is(err, interp.ErrMissingPack):
		kind = backend.KindUnsupported
	case errors.Is(err, interp.ErrBadProgram):
		kind = backend.KindInvalidRequest
	case errors.Is(err, interp.ErrBusy), errors.Is(err, interp.ErrPreparing), errors.Is(err, interp.ErrCompiling):
		kind = backend.KindCapacity
	case errors.Is(err, interp.ErrClosed):
		kind = backend.KindUnavailable
	}
	e := backend.Errorf(kind, "Run", "%w", err)
	e.Provider, e.Subject = Name, backend.SubjectRun
	switch {
	case errors.Is(err, interp.ErrPreparing):
		e.RetryAfter = preparingRetry
	case errors.Is(err, interp.ErrCompiling):
		e.RetryAfter = interp.CompilePause
	}
	return e
}

// preparingRetry is when an interpreter that is being compiled should be ready: to
// compile the largest takes half a minute.
const preparingRetry = 15 * time.Second

// argv resolves a step: the program directory stands in for its marker in what
// the table wrote, never in what the caller did.
func argv(s backend.Step) []string {
	out := make([]string, 0, len(s.Argv)+len(s.Args))
	for _, a := range s.Argv {
		out = append(out, strings.ReplaceAll(a, backend.ProgramDir, programDir))
	}
	if out[0] == "qjs" && len(out) > 1 && strings.HasSuffix(out[1], ".ts") {
		out[0] = "ts"
	} else if out[0] == "qjs" {
		out[0] = "node"
	}
	return append(out, s.Args...)
}

func (r *run) env() map[string]string {
	env := maps.Clone(r.sb.Record.Env)
	if env == nil {
		env = make(map[string]string)
	}
	for k, v := range r.spec.Env {
		env[k] = strings.ReplaceAll(v, backend.ProgramDir, programDir)
	}
	return env
}

// collect finds what changed, also for a caller who is gone.
func (r *run) collect(ctx context.Context) {
	if r.spec.Collect.Skip {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	after := r.scan(ctx, r.before)
	if after != nil && after == r.before {
		return // the very same: nothing was written
	}
	d := changes.Diff(r.before, after, r.spec.Collect)
	r.result.Changed, r.result.Deleted, r.result.Skipped, r.result.CollectFailed = d.Changed, d.Deleted, d.Skipped, d.Failed
	for _, e := range d.Changed {
		r.result.Usage.BytesOut += e.Size
	}
}

// scan returns nil when the tree cannot be read, which is not an empty tree. With
// the tree as it was before, no more files are read than can be reported.
func (r *run) scan(ctx context.Context, before *changes.Snapshot) *changes.Snapshot {
	limits := changes.Defaults(r.spec.Collect)
	s, err := r.sb.Files(ctx, changes.ScanOptions{
		Exclude:        r.spec.Collect.Exclude,
		MaxDigestBytes: limits.MaxFileBytes,
		Before:         before,
		MaxNew:         limits.MaxFiles,
	})
	if err != nil {
		r.b.o.Log.Warn("changes cannot be established", "run", r.spec.RunID, "error", err)
		return nil
	}
	return s
}

func (r *run) clean() {
	if r.scratch != nil {
		if err := r.scratch.Close(); err != nil {
			r.b.o.Log.Warn("a run directory stays until the next start", "run", r.spec.RunID, "error", err)
		}
	}
}

// capped passes on the head of a stream, and counts and drops the rest, so that
// a talkative program neither fills memory nor waits.
type capped struct {
	max   int64
	total int64
	to    func([]byte) error
	fail  func() // nobody listens any more
}

func (c *capped) Write(p []byte) (int, error) {
	room := max(0, c.max-c.total)
	c.total += int64(len(p))
	if head := p[:min(int64(len(p)), room)]; len(head) > 0 {
		if err := c.to(head); err != nil {
			c.fail()
			return 0, err
		}
	}
	return len(p), nil
}
