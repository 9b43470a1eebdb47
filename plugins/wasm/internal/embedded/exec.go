package embedded

import (
	"bytes"
	"context"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// Exec runs one interpreter, for example ["python3", "-c", "..."], or a command line
// in the shell. There is no other command here.
func (b *Backend) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	const op = "Exec"
	if err := req.Check(); err != nil {
		return backend.ExecResult{}, err
	}
	if req.User != "" || (req.Dir != "" && req.Dir != backend.DataDir) {
		return backend.ExecResult{}, backend.Errorf(backend.KindUnsupported, op, "user, dir: the embedded backend runs commands in %s only", backend.DataDir)
	}
	sb, err := b.use(op, req.Ref)
	if err != nil {
		return backend.ExecResult{}, err
	}
	defer sb.Release()
	ctx, done, err := sb.Turn(ctx)
	if err != nil {
		return backend.ExecResult{}, sandboxError(op, err)
	}
	defer done()
	command := argv(backend.Step{Argv: req.Argv[:1], Args: req.Argv[1:]})
	if req.Shell {
		command = []string{"bash", "-c", req.Argv[0]}
	}
	if err := b.o.Engine.Prepare(ctx, command[0]); err != nil {
		return backend.ExecResult{}, engineError(ctx, err)
	}
	timeout := time.Duration(orElse(int64(req.Timeout), int64(defaultWall)))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, generic.ErrWall)
	defer cancel()
	r := &run{b: b, sb: sb, spec: backend.RunSpec{Ref: req.Ref, Env: req.Env}}
	var stdout, stderr bytes.Buffer
	limit := orElse(req.MaxOutputBytes, defaultOutput)
	r.out = capped{max: limit, to: keep(&stdout), fail: cancel}
	r.err = capped{max: limit, to: keep(&stderr), fail: cancel}
	defer r.clean()
	if err := r.makeDirs(); err != nil {
		return backend.ExecResult{}, err
	}
	res, err := b.o.Engine.Run(ctx, interp.Program{
		Argv: command, Env: r.env(),
		Stdin: bytes.NewReader(req.Stdin), Stdout: &r.out, Stderr: &r.err,
		Data:  interp.Mount{Root: sb.Data, Quota: sb.Quota},
		Tmp:   interp.Mount{Root: r.scratch.Tmp, Quota: r.scratch.TmpQuota},
		Entry: r.scratch.Entry,
	})
	if err != nil {
		return backend.ExecResult{}, engineError(ctx, err)
	}
	r.finish(ctx, res)
	return backend.ExecResult{
		Stop: r.result.Stop, ExitCode: r.result.ExitCode, Signal: r.result.Signal, Wall: res.WallTime,
		Stdout: stdout.Bytes(), StdoutTruncated: r.out.total > limit,
		Stderr: stderr.Bytes(), StderrTruncated: r.err.total > limit,
	}, nil
}

func keep(b *bytes.Buffer) func([]byte) error {
	return func(p []byte) error {
		b.Write(p)
		return nil
	}
}
