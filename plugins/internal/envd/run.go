package envd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// cleanupTime bounds what is done after the program ended: finding changes.
const cleanupTime = 30 * time.Second

// Run implements backend.Backend with one process in the sandbox, which does it all.
func (c *Client) Run(ctx context.Context, spec backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	const op = "Run"
	if err := spec.Check(); err != nil {
		return backend.RunResult{}, err
	}
	if spec.Control {
		return backend.RunResult{}, c.fail(op, backend.KindUnsupported, "control: no calls are passed on from a remote sandbox")
	}
	leave, err := c.turns.Enter(ctx, spec.Ref)
	if err != nil {
		return backend.RunResult{}, err
	}
	defer leave()
	listening, gone := context.WithCancelCause(ctx)
	defer gone(nil)
	limits := generic.FillLimits(spec.Limits, c.opts.Limits)
	r := &run{
		c: c, op: op, spec: spec, live: live, limits: limits,
		nonce: newNonce(), collect: changes.Defaults(spec.Collect),
	}
	r.dir = path.Join(stateDir, "run-"+r.nonce[:16])
	r.out = generic.NewCapped(live, limits, gone)
	return r.run(listening)
}

// run is one run.
type run struct {
	c       *Client
	op      string
	spec    backend.RunSpec
	live    backend.RunIO
	limits  backend.Limits
	collect backend.CollectSpec
	nonce   string
	// dir holds what the run needs in the sandbox, and its program in dir/p.
	dir string
	out *generic.Capped

	result        backend.RunResult
	before, after section
	state         phase
	times         []string
	f             *follower
	pid           uint32 // of the step's leader
	killer        *killer
	why           backend.StopReason // of the steps, once they are over
	failed        error
}

// phase is how far a run has come, as seen on its stdout.
type phase int

const (
	preparing phase = iota
	running
	ended
)

func (r *run) run(ctx context.Context) (backend.RunResult, error) {
	args, err := r.place(ctx)
	if err != nil {
		r.cleanup(ctx)
		return backend.RunResult{}, err
	}
	var stdin io.Reader
	if r.spec.Stdin {
		stdin = r.live.Stdin()
	}
	in, err := r.c.newInput(ctx, r.op, r.spec.ID, r.nonce, stdin)
	if err != nil {
		r.cleanup(ctx)
		return backend.RunResult{}, err
	}
	env, prefix := environment(r.programEnv())
	args = append([]string{"/bin/sh", "-c", withPrune(runScript, r.collect.Exclude), "caisson", r.nonce}, r.arguments(in, prefix, args)...)
	err = r.c.do(ctx, call{op: r.op, id: r.spec.ID}, func(ctx context.Context, b *box) error {
		msg := command("/usr/bin/setsid", args, env)
		msg.Stdin = in.wanted()
		var err error
		r.f, err = r.c.start(ctx, b, r.op, msg)
		return err
	})
	if err != nil {
		r.cleanup(ctx)
		return backend.RunResult{}, err
	}
	defer r.f.close()
	in.pump(r.f)
	defer in.end()
	return r.follow(ctx)
}

// cleanup removes what a run that did not begin left. It has no other effect.
func (r *run) cleanup(ctx context.Context) { r.c.discard(ctx, r.op, r.spec.ID, r.dir) }

// programEnv is the environment with the program's directory in its place.
func (r *run) programEnv() map[string]string {
	env := make(map[string]string, len(r.spec.Env))
	for k, v := range r.spec.Env {
		env[k] = strings.ReplaceAll(v, backend.ProgramDir, r.dir+"/p")
	}
	return env
}

// arguments are those of the script.
func (r *run) arguments(in *input, prefix, placed []string) []string {
	depth, limit := "1", strconv.FormatInt(r.collect.MaxFileBytes+1, 10)
	if r.collect.Skip {
		depth = "0"
	}
	cpu := int64(0)
	if r.limits.CPU > 0 {
		cpu = int64((r.limits.CPU + time.Second - 1) / time.Second)
	}
	args := append([]string{
		r.dir, r.collect.Root, cmp.Or(r.spec.Dir, backend.DataDir), depth, limit, strconv.FormatInt(cpu, 10), in.arg(),
	}, placed...)
	for _, step := range r.spec.Steps {
		argv := make([]string, 0, len(step.Argv)+len(step.Args))
		for _, a := range step.Argv {
			argv = append(argv, strings.ReplaceAll(a, backend.ProgramDir, r.dir+"/p"))
		}
		argv = viaEnv(prefix, append(argv, step.Args...))
		args = append(append(args, strconv.Itoa(len(argv))), argv...)
	}
	return args
}

// maxInline is how much of a program travels with the command that runs it.
const maxInline = 64 << 10

// place uploads what is too large for a command line, and returns the arguments that
// tell the script of the program and the inputs.
func (r *run) place(ctx context.Context) ([]string, error) {
	source := r.spec.Program.Source
	r.result.Usage.BytesIn = int64(len(source))
	args := []string{r.spec.Program.File, "=" + string(source)}
	if len(source) > maxInline || !utf8.Valid(source) || bytes.IndexByte(source, 0) >= 0 {
		args[1] = "-"
		if _, err := r.c.upload(ctx, r.op, r.spec.ID, path.Join(r.dir, "p", r.spec.Program.File), bytes.NewReader(source)); err != nil {
			return nil, err
		}
	}
	args = append(args, strconv.Itoa(len(r.spec.Inputs)))
	for i := range r.spec.Inputs {
		in := &r.spec.Inputs[i]
		staged := path.Join(r.dir, "in", strconv.Itoa(i))
		mode, err := r.stage(ctx, i, in, staged)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		need := "m"
		if in.Optional {
			need = "o"
		}
		switch {
		case err != nil && !in.Optional, backend.ProvesGone(err):
			return nil, err
		case err != nil:
			staged = "-"
		}
		args = append(args, need, staged, in.Path, strconv.FormatUint(uint64(mode), 8))
	}
	return args, nil
}

func (r *run) follow(ctx context.Context) (backend.RunResult, error) {
	// Until it starts, the caller's patience bounds it, and looking at files takes no
	// longer than a short call; from then on its time runs.
	r.killer = newKiller(ctx, r.f, r.c.opts.Timeout, r.c.opts.Timeout, r.hurry)
	began := time.Now()
	err := r.read(ctx, &began)
	r.killer.end()
	why := r.why
	if r.state != ended {
		why = r.killer.why()
	}
	res := &r.result
	if r.state == preparing {
		if !errors.Is(err, errEnded) {
			_ = r.f.kill(0, r.f.pid)
		}
		r.cleanup(ctx)
		switch {
		case ctx.Err() != nil && context.Cause(ctx) != nil:
			return backend.RunResult{}, context.Cause(ctx)
		case why != "" && r.failed == nil:
			return backend.RunResult{}, r.c.fail(r.op, backend.KindTimeout, "the sandbox took too long to prepare the run")
		case r.failed != nil:
			return backend.RunResult{}, r.failed
		}
		return backend.RunResult{}, r.c.explain(ctx, r.op, "", r.f.b, err)
	}
	if r.state == running {
		// It began, and nobody saw its end.
		res.Usage.Wall = time.Since(began)
		res.Stop, res.ExitCode, res.Message = backend.StopLost, -1, "the connection to the sandbox was lost while the program ran"
		if why == "" {
			_ = r.f.kill(r.f.pid, r.pid, r.f.pid)
		}
	}
	if why != "" {
		res.Stop, res.ExitCode, res.Signal = why, -1, ""
	}
	r.changed()
	r.out.Count(res)
	slices.Sort(res.MissingInputs)
	for _, e := range res.Changed {
		res.Usage.BytesOut += e.Size
	}
	return *res, nil
}

// changed compares the scans, if both were seen whole.
func (r *run) changed() {
	res := &r.result
	if r.collect.Skip {
		return
	}
	res.CollectFailed = true
	if r.state != ended || !r.before.complete() || !r.after.complete() {
		return
	}
	before, err1 := r.before.parse(r.collect.Root)
	after, err2 := r.after.parse(r.collect.Root)
	if errors.Join(err1, err2) != nil {
		return
	}
	d := changes.Diff(before.snapshot(), after.snapshot(), r.collect)
	res.Changed, res.Deleted, res.Skipped, res.CollectFailed = d.Changed, d.Deleted, d.Skipped, d.Failed
}

// next is one step of reading.
func (r *run) next(stdout, stderr *marks) (over bool, err error) {
	e, err := r.f.next()
	if err != nil {
		return false, err
	}
	if err := feed(e, stdout, stderr); err != nil {
		return false, err
	}
	end := e.GetEnd()
	if end != nil && r.state != ended && r.failed == nil {
		return true, r.c.fail(r.op, backend.KindInternal, "the script of the run ended early: %s", end.GetStatus())
	}
	return end != nil, nil
}
