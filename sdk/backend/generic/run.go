package generic

import (
	"cmp"
	"context"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

const op = "Run"

// Run is backend.Backend.Run.
func (r *Runner) Run(ctx context.Context, spec backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	if err := spec.Check(); err != nil {
		return backend.RunResult{}, err
	}
	controller, ok := r.p.(Controller)
	if spec.Control && !ok {
		return backend.RunResult{}, backend.Errorf(backend.KindUnsupported, op, "control: this backend passes no calls on")
	}
	leave, err := r.turns.Enter(ctx, spec.Ref)
	if err != nil {
		return backend.RunResult{}, err
	}
	defer leave()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	one := &run{
		Runner: r, spec: spec, live: live,
		dir: path.Join(r.opts.ProgramRoot, checkedID(spec.RunID)),
	}
	one.out = NewCapped(live, FillLimits(spec.Limits, r.opts.Limits), cancel)
	defer one.cleanup(ctx)
	if err := one.prepare(ctx); err != nil {
		return backend.RunResult{}, err
	}
	before := one.snapshot(ctx)
	if spec.Control {
		err = one.executeControlled(ctx, controller, cancel)
	} else {
		err = one.executeTimed(ctx)
	}
	if err != nil {
		return backend.RunResult{}, err
	}
	one.collect(ctx, before)
	return one.result, nil
}

// FillLimits returns l with its zero members taken from d.
func FillLimits(l, d backend.Limits) backend.Limits {
	l.Wall = cmp.Or(l.Wall, d.Wall)
	l.CPU = cmp.Or(l.CPU, d.CPU)
	l.MemoryBytes = cmp.Or(l.MemoryBytes, d.MemoryBytes)
	l.CPUs = cmp.Or(l.CPUs, d.CPUs)
	l.Processes = cmp.Or(l.Processes, d.Processes)
	l.StdoutBytes = cmp.Or(l.StdoutBytes, d.StdoutBytes)
	l.StderrBytes = cmp.Or(l.StderrBytes, d.StderrBytes)
	l.DiskBytes = cmp.Or(l.DiskBytes, d.DiskBytes)
	l.DiskFiles = cmp.Or(l.DiskFiles, d.DiskFiles)
	return l
}

// checkedID makes one path segment of a run id.
func checkedID(id string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
			return c
		}
		return '_'
	}, id)
}

// run is one run.
type run struct {
	*Runner
	spec backend.RunSpec
	live backend.RunIO
	// dir holds the program.
	dir    string
	out    *Capped
	result backend.RunResult
}

// prepare places what the program needs.
func (r *run) prepare(ctx context.Context) error {
	if !r.opts.KeepTmp {
		if err := r.p.Remove(ctx, r.spec.Ref, backend.TmpDir); err != nil {
			return err
		}
		if err := r.p.MakeDir(ctx, r.spec.Ref, backend.TmpDir); err != nil {
			return err
		}
	}
	if err := r.p.MakeDir(ctx, r.spec.Ref, backend.DataDir); err != nil {
		return err
	}
	for i := range r.spec.Inputs {
		if err := r.place(ctx, i); err != nil {
			return err
		}
	}
	r.result.Usage.BytesIn += int64(len(r.spec.Program.Source))
	_, err := r.p.WriteFile(ctx, r.spec.Ref, path.Join(r.dir, r.spec.Program.File),
		backend.WriteOptions{}, strings.NewReader(string(r.spec.Program.Source)))
	return err
}

// executeTimed runs the steps within the wall limit. An error means that nothing ran.
func (r *run) executeTimed(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, r.out.limits.Wall, ErrWall)
	defer cancel()
	return r.execute(ctx, nil, func() time.Duration { return time.Since(began) })
}

// execute runs the steps. The last has the variables of last besides; spent says how
// much of the wall limit was used. An error means that nothing ran.
func (r *run) execute(ctx context.Context, last map[string]string, spent func() time.Duration) error {
	limits := r.out.limits
	env := make(map[string]string, len(r.spec.Env))
	for k, v := range maps.All(r.spec.Env) {
		env[k] = strings.ReplaceAll(v, backend.ProgramDir, r.dir)
	}
	var stdin io.Reader
	if r.spec.Stdin {
		stdin = r.live.Stdin()
	}
	res := &r.result
	for i, step := range r.spec.Steps {
		argv := make([]string, 0, len(step.Argv)+len(step.Args))
		for _, a := range step.Argv {
			argv = append(argv, strings.ReplaceAll(a, backend.ProgramDir, r.dir))
		}
		cmd := Command{
			Ref: r.spec.Ref, Argv: append(argv, step.Args...), Env: env,
			Dir: cmp.Or(r.spec.Dir, backend.DataDir), ProgramDir: r.dir, Limits: limits,
		}
		if i == len(r.spec.Steps)-1 {
			cmd.Stdin = stdin // build steps read none of it
			maps.Copy(env, last)
		}
		cmd.Limits.Wall = max(limits.Wall-spent(), time.Millisecond)
		if r.spec.Control {
			cmd.Limits.Wall = 0
		}
		if limits.CPU > 0 {
			cmd.Limits.CPU = max(limits.CPU-res.Usage.CPU, time.Millisecond)
		}
		out, err := r.p.Execute(ctx, cmd, r.out)
		if err != nil {
			if err := r.broken(ctx, err); err != nil {
				return err
			}
			out = Result{Stop: res.Stop, ExitCode: -1, Message: res.Message}
		} else if err := r.out.Started(); err != nil {
			out.Stop = backend.StopCanceled // it ended before it said that it started
		}
		res.Step = i
		r.count(ctx, out)
		if res.Stop != backend.StopExit || res.ExitCode != 0 {
			break
		}
	}
	res.Usage.Wall = spent()
	r.out.Count(res)
	return nil
}

// count takes over how a step ended.
func (r *run) count(ctx context.Context, out Result) {
	res := &r.result
	res.Stop, res.ExitCode, res.Signal, res.Message = out.Stop, out.ExitCode, out.Signal, out.Message
	if stop, message := StopOf(ctx); res.Stop == backend.StopCanceled { // the backend saw only that the context ended
		res.Stop, res.Message = stop, cmp.Or(message, res.Message)
	}
	if res.Stop != backend.StopExit && res.Stop != backend.StopDisk {
		res.ExitCode = -1
	}
	res.Usage.CPU += out.CPU
	res.Usage.Fuel += out.Fuel
	res.Usage.PeakMemoryBytes = max(res.Usage.PeakMemoryBytes, out.PeakMemoryBytes)
}

// broken decides what an error of Execute means. Before the start the run could
// not be carried out. After it, it is over, and only how is unknown.
func (r *run) broken(ctx context.Context, err error) error {
	switch {
	case !r.out.WasStarted():
		return err
	case ctx.Err() != nil:
		r.result.Stop, r.result.Message = StopOf(ctx)
	default:
		r.result.Stop, r.result.Message = backend.StopLost, "the command's end was not seen"
	}
	return nil
}

// snapshot reads the tree with digests; nil when that fails, which is not the
// same as an empty tree.
func (r *run) snapshot(ctx context.Context) *changes.Snapshot {
	c := changes.Defaults(r.spec.Collect)
	if c.Skip {
		return nil
	}
	res, err := r.p.Walk(ctx, backend.WalkRequest{
		Ref: r.spec.Ref, Root: c.Root, Digests: true, MaxDigestBytes: c.MaxFileBytes, Exclude: c.Exclude,
	})
	if err != nil || res.Truncated {
		return nil
	}
	s := &changes.Snapshot{Files: make(map[string]changes.File, len(res.Entries))}
	for _, e := range res.Entries {
		if e.Type == backend.EntryFile {
			s.Files[e.Path] = changes.File{
				Stamp: changes.Stamp{Size: e.Size, Modified: e.Modified.UnixNano()}, Mode: e.Mode, SHA256: e.SHA256,
			}
		}
	}
	return s
}

// collect finds what changed. The caller may be gone: it is done all the same.
func (r *run) collect(ctx context.Context, before *changes.Snapshot) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.CleanupTime)
	defer cancel()
	res := &r.result
	if !r.spec.Collect.Skip {
		var after *changes.Snapshot
		if before != nil {
			after = r.snapshot(ctx)
		}
		d := changes.Diff(before, after, r.spec.Collect)
		res.Changed, res.Deleted, res.Skipped, res.CollectFailed = d.Changed, d.Deleted, d.Skipped, d.Failed
	}
	slices.Sort(res.MissingInputs)
	for _, e := range res.Changed {
		res.Usage.BytesOut += e.Size
	}
}

// cleanup removes the program whatever happened. What cannot be removed is in
// nobody's way: the next run has another directory.
func (r *run) cleanup(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.CleanupTime)
	defer cancel()
	_ = r.p.Remove(ctx, r.spec.Ref, r.dir)
}
