package hostbackend

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// translate turns an argument that is a path of the sandbox into the real one.
func (x *box) translate(arg, programDir string) string {
	for _, root := range []string{backend.DataDir, backend.TmpDir, programDir} {
		if root != "" && backend.Within(root, arg) {
			return filepath.Join(x.dir, arg)
		}
	}
	return arg
}

func (x *box) command(argv []string, programDir, dir string, env map[string]string) (*exec.Cmd, error) {
	if backend.CheckPath(dir) != nil {
		return nil, backend.Errorf(backend.KindInvalidRequest, "Execute", "dir is no path")
	}
	real := make([]string, len(argv))
	for i, a := range argv {
		real[i] = x.translate(a, programDir)
	}
	cmd := exec.Command(real[0], real[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Dir = filepath.Join(x.dir, dir)
	cmd.Env = []string{"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/local/bin:/usr/bin:/bin"), "TMPDIR=" + filepath.Join(x.dir, backend.TmpDir)}
	for _, m := range []map[string]string{x.env, env} {
		for k, v := range m {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 300 * time.Millisecond
	return cmd, nil
}

// wait runs a started command to its end.
func wait(ctx context.Context, cmd *exec.Cmd) (stop backend.StopReason, code int, signal string, err error) {
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	unwatch := context.AfterFunc(ctx, kill)
	err = cmd.Wait()
	stopped := !unwatch()
	kill() // descendants
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		if !stopped {
			return "", 0, "", err
		}
	}
	if stopped {
		return backend.StopCanceled, -1, "", nil
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return backend.StopExit, 128 + int(ws.Signal()), unix.SignalName(ws.Signal()), nil
	}
	return backend.StopExit, cmd.ProcessState.ExitCode(), "", nil
}

// Execute implements generic.Primitives.
func (b *Backend) Execute(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
	x, err := b.awake(ctx, "Run", c.Ref)
	if err != nil {
		return generic.Result{}, err
	}
	cmd, err := x.command(c.Argv, c.ProgramDir, c.Dir, c.Env)
	if err != nil {
		return generic.Result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	pass := func(f func([]byte) error) io.Writer {
		return writer(func(p []byte) error {
			mu.Lock()
			defer mu.Unlock()
			err := f(p)
			if err != nil {
				cancel()
			}
			return err
		})
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, pass(out.Stdout), pass(out.Stderr)
	if err := start(cmd, func() error {
		mu.Lock()
		defer mu.Unlock()
		return out.Started()
	}); err != nil {
		return generic.Result{}, err
	}
	x.last.Store(0)
	x.group.Store(int64(cmd.Process.Pid))
	stop, code, signal, err := wait(ctx, cmd)
	x.group.Store(0)
	if err != nil {
		return generic.Result{}, err
	}
	return generic.Result{
		Stop: stop, ExitCode: code, Signal: signal,
		CPU: cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime(),
	}, nil
}

// start starts a command once started was told.
func start(cmd *exec.Cmd, started func() error) error {
	if _, err := exec.LookPath(cmd.Path); err != nil {
		return backend.Errorf(backend.KindInvalidRequest, "Run", "%s: no such command", path.Base(cmd.Path))
	}
	if err := started(); err != nil {
		return err
	}
	return cmd.Start()
}

type writer func(p []byte) error

func (w writer) Write(p []byte) (int, error) {
	if err := w(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Exec implements backend.Backend.
func (b *Backend) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	const op = "Exec"
	if err := req.Check(); err != nil {
		return backend.ExecResult{}, err
	}
	x, err := b.awake(ctx, op, req.Ref)
	if err != nil {
		return backend.ExecResult{}, err
	}
	argv := req.Argv
	if req.Shell {
		argv = []string{"/bin/sh", "-c", req.Argv[0]}
	}
	dir := req.Dir
	if dir == "" {
		dir = backend.DataDir
	}
	cmd, err := x.command(argv, "", dir, req.Env)
	if err != nil {
		return backend.ExecResult{}, err
	}
	limit := req.MaxOutputBytes
	if limit == 0 {
		limit = 1 << 20
	}
	timeout := req.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	var stdout, stderr head
	stdout.limit, stderr.limit = limit, limit
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(req.Stdin), &stdout, &stderr
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	if err := start(cmd, func() error { return nil }); err != nil {
		return backend.ExecResult{}, err
	}
	stop, code, signal, err := wait(limited, cmd)
	switch {
	case ctx.Err() != nil:
		return backend.ExecResult{}, ctx.Err()
	case err != nil:
		return backend.ExecResult{}, backend.Errorf(backend.KindInternal, op, "%w", err)
	case stop == backend.StopCanceled:
		stop = backend.StopTimeout
	}
	return backend.ExecResult{
		Stop: stop, ExitCode: code, Signal: signal, Wall: time.Since(began),
		Stdout: stdout.kept, StdoutTruncated: stdout.total > limit,
		Stderr: stderr.kept, StderrTruncated: stderr.total > limit,
	}, nil
}

// head keeps the beginning and counts the rest.
type head struct {
	limit, total int64
	kept         []byte
}

func (h *head) Write(p []byte) (int, error) {
	if room := h.limit - h.total; room > 0 {
		h.kept = append(h.kept, p[:min(int64(len(p)), room)]...)
	}
	h.total += int64(len(p))
	return len(p), nil
}
