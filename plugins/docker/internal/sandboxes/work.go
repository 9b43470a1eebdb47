package sandboxes

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// Every call goes to the agent where there is one, else through the engine's own
// means. One that reads, or may be done twice, is done again when the connection broke.

// reach returns a sandbox's container, and its agent or nil.
func (b *Backend) reach(ctx context.Context, op string, ref backend.Ref) (*box, *agentclient.Client, error) {
	x, err := b.use(ctx, op, ref)
	if err != nil {
		return nil, nil, err
	}
	cl, err := x.agent(ctx, op)
	return x, cl, err
}

// twice does what may be done twice.
func twice[T any](ctx context.Context, b *Backend, op string, ref backend.Ref, path string, by func(*agentclient.Client) (T, error), without func(*box) (T, error)) (T, error) {
	var zero T
	if path != "" {
		if err := backend.CheckPath(path); err != nil {
			return zero, engine.FileError(backend.KindInvalidRequest, op, shorten(path), err.Error())
		}
	}
	for attempt := 0; ; attempt++ {
		x, cl, err := b.reach(ctx, op, ref)
		if err != nil {
			return zero, err
		}
		if cl == nil {
			return without(x)
		}
		got, err := by(cl)
		if attempt == 0 && errors.Is(err, agentclient.ErrLost) && ctx.Err() == nil {
			x.disconnect()
			continue
		}
		return got, x.fault(ctx, op, err)
	}
}

func shorten(path string) string {
	if len(path) > 200 {
		return path[:200] + "…"
	}
	return path
}

// Walk lists a tree.
func (b *Backend) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	return twice(ctx, b, "Walk", req.Ref, req.Root,
		func(cl *agentclient.Client) (backend.WalkResult, error) { return cl.Walk(ctx, req) },
		func(x *box) (backend.WalkResult, error) { return x.plain().Walk(ctx, req) })
}

// Stat describes one path.
func (b *Backend) Stat(ctx context.Context, ref backend.Ref, path string) (backend.Entry, error) {
	if path == "" {
		return backend.Entry{}, emptyPath("Stat")
	}
	return twice(ctx, b, "Stat", ref, path,
		func(cl *agentclient.Client) (backend.Entry, error) { return cl.Stat(ctx, path) },
		func(x *box) (backend.Entry, error) { return x.plain().Stat(ctx, "Stat", path) })
}

// ListDir lists one directory.
func (b *Backend) ListDir(ctx context.Context, ref backend.Ref, path string) ([]backend.Entry, error) {
	if path == "" {
		return nil, emptyPath("ListDir")
	}
	return twice(ctx, b, "ListDir", ref, path,
		func(cl *agentclient.Client) ([]backend.Entry, error) { return cl.ListDir(ctx, path) },
		func(x *box) ([]backend.Entry, error) { return x.plain().ListDir(ctx, path) })
}

func emptyPath(op string) error {
	return engine.FileError(backend.KindInvalidRequest, op, `""`, "path is empty")
}

// opened is what ReadFile returns.
type opened struct {
	r io.ReadCloser
	e backend.Entry
}

// ReadFile opens a regular file.
func (b *Backend) ReadFile(ctx context.Context, ref backend.Ref, path string) (io.ReadCloser, backend.Entry, error) {
	if path == "" {
		return nil, backend.Entry{}, emptyPath("ReadFile")
	}
	got, err := twice(ctx, b, "ReadFile", ref, path,
		func(cl *agentclient.Client) (opened, error) {
			r, e, err := cl.ReadFile(ctx, path)
			return opened{r, e}, err
		},
		func(x *box) (opened, error) {
			r, e, err := x.plain().ReadFile(ctx, path)
			return opened{r, e}, err
		})
	return got.r, got.e, err
}

// MakeDir makes a directory.
func (b *Backend) MakeDir(ctx context.Context, ref backend.Ref, path string) error {
	return b.change(ctx, "MakeDir", ref, path, (*agentclient.Client).MakeDir, func(x *box) error { return x.plain().MakeDir(ctx, path) })
}

// Remove deletes a path with everything below it.
func (b *Backend) Remove(ctx context.Context, ref backend.Ref, path string) error {
	return b.change(ctx, "Remove", ref, path, (*agentclient.Client).Remove, func(x *box) error { return x.plain().Remove(ctx, path) })
}

func (b *Backend) change(ctx context.Context, op string, ref backend.Ref, path string, by func(*agentclient.Client, context.Context, string) error, without func(*box) error) error {
	if path == "" {
		return emptyPath(op)
	}
	_, err := twice(ctx, b, op, ref, path,
		func(cl *agentclient.Client) (struct{}, error) { return struct{}{}, by(cl, ctx, path) },
		func(x *box) (struct{}, error) { return struct{}{}, without(x) })
	return err
}

// WriteFile replaces a regular file. Its content can be read once only.
func (b *Backend) WriteFile(ctx context.Context, ref backend.Ref, path string, opts backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	const op = "WriteFile"
	if err := backend.CheckPath(path); err != nil {
		return backend.Entry{}, engine.FileError(backend.KindInvalidRequest, op, shorten(path), err.Error())
	}
	x, cl, err := b.reach(ctx, op, ref)
	if err != nil {
		return backend.Entry{}, err
	}
	if cl == nil {
		return x.plain().WriteFile(ctx, path, opts, r)
	}
	e, err := cl.WriteFile(ctx, path, opts, r)
	return e, x.fault(ctx, op, err)
}

// Run carries out a run.
func (b *Backend) Run(ctx context.Context, spec backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	const op = "Run"
	if err := spec.Check(); err != nil {
		return backend.RunResult{}, err
	}
	x, cl, err := b.reach(ctx, op, spec.Ref)
	if err != nil {
		return backend.RunResult{}, err
	}
	defer x.touch()
	if cl == nil {
		return b.runner.Run(ctx, spec, live)
	}
	spec.Env = x.environ(spec.Env)
	heard := &counting{RunIO: live}
	began := x.b.o.Now()
	res, err := cl.Run(ctx, spec, heard)
	if err == nil && res.Stop == backend.StopLost {
		// Nobody can tell more than was heard.
		res.StdoutBytes, res.StderrBytes = max(res.StdoutBytes, heard.stdout), max(res.StderrBytes, heard.stderr)
		res.Usage.Wall = max(res.Usage.Wall, x.b.o.Now().Sub(began))
		res.CollectFailed = !spec.Collect.Skip
		_ = x.standing(ctx, op) // so that the next call knows
	}
	return res, x.fault(ctx, op, err)
}

// counting counts the output that is passed on. Its methods are called from one
// goroutine at a time.
type counting struct {
	backend.RunIO
	stdout, stderr int64
}

func (c *counting) Stdout(p []byte) error {
	c.stdout += int64(len(p))
	return c.RunIO.Stdout(p)
}

func (c *counting) Stderr(p []byte) error {
	c.stderr += int64(len(p))
	return c.RunIO.Stderr(p)
}

// environ adds the sandbox's environment to what a request brings.
func (x *box) environ(env map[string]string) map[string]string {
	r := x.record()
	if len(r.Env) == 0 {
		return env
	}
	all := maps.Clone(r.Env)
	maps.Copy(all, env)
	return all
}

// Exec runs one command.
func (b *Backend) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	const op = "Exec"
	if err := req.Check(); err != nil {
		return backend.ExecResult{}, err
	}
	x, cl, err := b.reach(ctx, op, req.Ref)
	if err != nil {
		return backend.ExecResult{}, err
	}
	defer x.touch()
	if cl == nil {
		return x.plain().Exec(ctx, req)
	}
	req.Env = x.environ(req.Env)
	res, err := cl.Exec(ctx, req)
	return res, x.fault(ctx, op, err)
}

// primitives are what package generic runs a program with where there is no agent.
type primitives struct{ *Backend }

func (p primitives) Execute(ctx context.Context, cmd generic.Command, out generic.Output) (generic.Result, error) {
	x, err := p.use(ctx, "Run", cmd.Ref)
	if err != nil {
		return generic.Result{}, err
	}
	return x.plain().Execute(ctx, cmd, out)
}

// needAgent is for what cannot be done without.
func needAgent(op string) error {
	return engine.Errorf(backend.KindUnsupported, op, backend.SubjectSandbox, "this sandbox works without its agent, which %s needs", op)
}

// Watch reports changes as they happen.
func (b *Backend) Watch(ctx context.Context, ref backend.Ref, root string, recursive bool, fn func(backend.WatchEvent) error) error {
	const op = "Watch"
	x, cl, err := b.reach(ctx, op, ref)
	if err != nil {
		return err
	}
	if cl == nil {
		return needAgent(op)
	}
	return x.fault(ctx, op, cl.Watch(ctx, root, recursive, fn))
}

// DialPort reaches a TCP port of a program.
func (b *Backend) DialPort(ctx context.Context, ref backend.Ref, port int) (net.Conn, error) {
	const op = "DialPort"
	if port < 1 || port > 65535 {
		return nil, engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectSandbox, "port: must be between 1 and 65535")
	}
	x, cl, err := b.reach(ctx, op, ref)
	if err != nil {
		return nil, err
	}
	if cl == nil {
		return nil, needAgent(op)
	}
	conn, err := cl.DialPort(ctx, port)
	return conn, x.fault(ctx, op, err)
}

// StartRun begins a run that outlives the call.
func (b *Backend) StartRun(ctx context.Context, spec backend.DetachedStart, live backend.RunIO) error {
	const op = "StartRun"
	if err := spec.Check(); err != nil {
		return err
	}
	x, cl, err := b.reach(ctx, op, spec.Ref)
	if err != nil {
		return err
	}
	if cl == nil {
		return needAgent(op)
	}
	spec.Env = x.environ(spec.Env)
	return x.fault(ctx, op, cl.StartRun(ctx, spec, live))
}

// AttachRun follows a run to its end.
func (b *Backend) AttachRun(ctx context.Context, ref backend.Ref, runID string, live backend.RunIO) (backend.RunResult, error) {
	const op = "AttachRun"
	x, cl, err := b.reach(ctx, op, ref)
	if err != nil {
		return backend.RunResult{}, err
	}
	if cl == nil {
		return backend.RunResult{}, needAgent(op)
	}
	defer x.touch()
	res, err := cl.AttachRun(ctx, runID, live)
	return res, x.fault(ctx, op, err)
}

// KillRun ends a run.
func (b *Backend) KillRun(ctx context.Context, ref backend.Ref, runID string) error {
	const op = "KillRun"
	x, cl, err := b.reach(ctx, op, ref)
	if err != nil {
		return err
	}
	if cl == nil {
		return needAgent(op)
	}
	return x.fault(ctx, op, cl.KillRun(ctx, runID))
}
