package plain

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

// mark is the variable by which the processes of one command are told from those of
// others when not all of the user's may be killed.
const mark = "CAISSON_COMMAND"

// start lets a command find its limits and a file mode that its group can work with,
// and becomes it. A command that does not exist ends with 127, as in a shell.
const start = `umask 002
[ -z "$1" ] || ulimit -t "$1" || exit 126
shift
exec "$@"`

const (
	// killTime bounds the ending of a command whose caller may be gone.
	killTime = 10 * time.Second
	// minFree is how many bytes of a file system are as good as none.
	minFree = 64 << 10
	// sigxcpu and sigkill are exit codes.
	sigxcpu, sigkill = 128 + 24, 128 + 9
)

// Execute runs one step of a run, for package generic.
func (b *Box) Execute(ctx context.Context, cmd generic.Command, out generic.Output) (generic.Result, error) {
	seconds := ""
	if cmd.Limits.CPU > 0 {
		seconds = strconv.FormatInt(int64((cmd.Limits.CPU+time.Second-1)/time.Second), 10)
	}
	began := time.Now()
	marker := rand.Text()
	code, err := b.Engine.Exec(ctx, engine.Command{
		Container: b.Container, User: b.User, Dir: cmd.Dir, Stdin: cmd.Stdin,
		Argv: append([]string{"/bin/sh", "-c", start, "sh", seconds}, cmd.Argv...),
		Env:  b.environ(cmd.Env, marker),
	}, engine.Streams{Started: out.Started, Stdout: out.Stdout, Stderr: out.Stderr})
	full, killed := b.kill(ctx, marker, code != 0)
	switch {
	case ctx.Err() != nil:
		return generic.Result{Stop: backend.StopCanceled, ExitCode: -1}, nil
	case errors.Is(err, engine.ErrListener):
		return generic.Result{Stop: backend.StopCanceled, ExitCode: -1}, nil
	case err != nil:
		return generic.Result{}, b.fail(ctx, "Run", err)
	case killed != nil:
		// The container has gone or stopped under the command.
		return generic.Result{}, b.fail(ctx, "Run", killed)
	}
	res := generic.Result{Stop: backend.StopExit, ExitCode: code}
	switch {
	case code == sigkill && b.wasOutOfMemory(ctx, began):
		res.Stop, res.ExitCode, res.Message = backend.StopMemory, -1, "the program used more memory than it may"
	case code == sigkill:
		res.Signal = "SIGKILL"
	case code == sigxcpu && seconds != "":
		res.Stop, res.ExitCode, res.Message = backend.StopCPU, -1, "the program used more processor time than it may"
	case code != 0 && full:
		res.Stop, res.Message = backend.StopDisk, "the disk of the sandbox is full"
	}
	return res, nil
}

func (b *Box) environ(env map[string]string, marker string) []string {
	out := make([]string, 0, len(b.Env)+len(env)+1)
	for _, m := range []map[string]string{b.Env, env} {
		for k, v := range m {
			out = append(out, k+"="+v)
		}
	}
	return append(out, mark+"="+marker)
}

// kill ends what a command has left, whoever its parent is by now. Where nothing
// else runs as the same user, that is every process of it; otherwise those that
// carry the mark. The container's own process is another user's. After a command that
// failed it also looks whether there is room left where programs write.
func (b *Box) kill(ctx context.Context, marker string, failed bool) (full bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	script := `kill -9 -1 2>/dev/null
`
	if b.Others.Load() > 0 {
		script = `for p in /proc/[0-9]*; do
	grep -qs "` + mark + `=$1" "$p/environ" && kill -9 "${p#/proc/}" 2>/dev/null
done
`
	}
	if failed {
		script += `stat -f -c '%a %S' ` + backend.DataDir + ` ` + backend.TmpDir + ` 2>/dev/null
`
	}
	var free bytes.Buffer
	_, err = b.Engine.Exec(ctx, engine.Command{
		Container: b.Container, User: b.User, Dir: "/", Argv: []string{"/bin/sh", "-c", script + "exit 0", "caisson", marker},
	}, engine.Streams{Stdout: func(p []byte) error { keep(&free, p); return nil }})
	for line := range strings.Lines(free.String()) {
		var blocks, size int64
		if n, _ := fmt.Sscan(line, &blocks, &size); n == 2 && blocks <= minFree/max(size, 1) {
			full = true
		}
	}
	return full, err
}

// wasOutOfMemory asks the engine what it saw: the container's state tells only of its
// first process.
func (b *Box) wasOutOfMemory(ctx context.Context, since time.Time) bool {
	ctx, cancel := engine.Short(ctx)
	defer cancel()
	// The engine's clock may be another.
	from, to := since.Add(-time.Second), time.Now().Add(time.Second)
	seen, failed := b.Engine.Client(ctx).Events(ctx, events.ListOptions{
		Since: strconv.FormatInt(from.Unix(), 10), Until: strconv.FormatInt(to.Unix()+1, 10),
		Filters: filters.NewArgs(filters.Arg("container", b.Container), filters.Arg("event", "oom")),
	})
	select {
	case <-seen:
		return true
	case <-failed:
		return false
	}
}

// execTimeout is that of a command which names none.
const execTimeout = 30 * time.Second

// Exec runs one command with bounded output.
func (b *Box) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	const op = "Exec"
	if req.User != "" && req.User != b.User {
		return backend.ExecResult{}, engine.Errorf(backend.KindUnsupported, op, backend.SubjectSandbox, "user: commands run as %s", b.User)
	}
	timeout := cmp.Or(req.Timeout, execTimeout)
	b.Others.Add(1)
	defer b.Others.Add(-1)
	limit := cmp.Or(req.MaxOutputBytes, 1<<20)
	timed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	argv := req.Argv
	if req.Shell {
		argv = []string{"/bin/sh", "-c", req.Argv[0]}
	}
	var res backend.ExecResult
	take := func(kept *[]byte, cut *bool) func([]byte) error {
		return func(p []byte) error {
			n := min(int64(len(p)), limit-int64(len(*kept)))
			*kept = append(*kept, p[:n]...)
			*cut = *cut || n < int64(len(p))
			return nil
		}
	}
	var stdin io.Reader
	if len(req.Stdin) > 0 {
		stdin = bytes.NewReader(req.Stdin)
	}
	began := time.Now()
	marker := rand.Text()
	code, err := b.Engine.Exec(timed, engine.Command{
		Container: b.Container, User: b.User, Dir: cmp.Or(req.Dir, backend.DataDir), Stdin: stdin,
		Argv: append([]string{"/bin/sh", "-c", start, "sh", ""}, argv...), Env: b.environ(req.Env, marker),
	}, engine.Streams{Stdout: take(&res.Stdout, &res.StdoutTruncated), Stderr: take(&res.Stderr, &res.StderrTruncated)})
	res.Wall = time.Since(began)
	res.Stop, res.ExitCode = backend.StopExit, code
	if err == nil {
		return res, nil
	}
	if timed.Err() == nil {
		return backend.ExecResult{}, b.fail(ctx, op, err)
	}
	_, _ = b.kill(ctx, marker, false)
	res.Stop, res.ExitCode = backend.StopTimeout, -1
	if ctx.Err() != nil {
		res.Stop = backend.StopCanceled
	}
	return res, nil
}
