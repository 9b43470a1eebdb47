package envd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
	"github.com/caisson-run/caisson/sdk/backend"
)

// execScript runs one command in its directory and says how it ended, on both
// streams, even if a descendant keeps them open. The command's session is the
// script's.
const execScript = basics + `d=$1 i=$2; shift 2
cd "$d" || { [ "$d" = /mnt/data ] && mkdir -p "$d" && cd "$d"; } || fail dir
case $i in
-) ;;
'') exec </dev/null;;
*) exec <"$i" && rm -f -- "$i" || fail input;;
esac
(exec "$@") 2>&4 3>&- 4>&-
s=$?
mark E "$s"
mark E "$s" 3>&4
`

// maxExecOutput is what is kept of each stream where a request names no limit.
const maxExecOutput = 1 << 20

// Exec implements backend.Backend.
func (c *Client) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	const op = "Exec"
	if err := req.Check(); err != nil {
		return backend.ExecResult{}, err
	}
	if req.User != "" && req.User != c.opts.User {
		return backend.ExecResult{}, c.fail(op, backend.KindUnsupported, "user: commands run as %q, which is part of the config", c.opts.User)
	}
	argv := req.Argv
	if req.Shell {
		argv = []string{"/bin/sh", "-c", req.Argv[0]}
	}
	out := newCapture(cmp.Or(req.MaxOutputBytes, maxExecOutput))
	e := &execution{
		c: c, op: op, nonce: newNonce(), out: out,
		dir: cmp.Or(req.Dir, backend.DataDir), argv: argv, env: req.Env,
		timeout: cmp.Or(req.Timeout, c.opts.Limits.Wall),
	}
	if len(req.Stdin) > 0 {
		e.stdin = bytes.NewReader(req.Stdin)
	}
	began := time.Now()
	stop, code, err := e.run(ctx, req.ID)
	if err != nil {
		return backend.ExecResult{}, err
	}
	res := backend.ExecResult{
		Stop: stop, ExitCode: code, Wall: time.Since(began),
		Stdout: out.stdout.kept, StdoutTruncated: out.stdout.cut,
		Stderr: out.stderr.kept, StderrTruncated: out.stderr.cut,
	}
	if stop == backend.StopExit {
		res.Signal = signalOf(code)
	}
	return res, nil
}

// signalOf names the signal that a shell's status stands for, if it does.
func signalOf(code int) string {
	if code <= 128 || code > 128+64 {
		return ""
	}
	return unix.SignalName(unix.Signal(code - 128))
}

// capture keeps the head of two streams.
type capture struct{ stdout, stderr head }

type head struct {
	limit int64
	kept  []byte
	cut   bool
}

func newCapture(limit int64) *capture { return &capture{head{limit: limit}, head{limit: limit}} }

func (h *head) write(p []byte) error {
	room := min(int64(len(p)), h.limit-int64(len(h.kept)))
	h.kept = append(h.kept, p[:room]...)
	h.cut = h.cut || room < int64(len(p))
	return nil
}

// execution is one command of Exec.
type execution struct {
	c       *Client
	op      string
	nonce   string
	out     *capture
	dir     string
	argv    []string
	env     map[string]string
	stdin   io.Reader
	timeout time.Duration
}

// drainTime is how long output is awaited that was on its way when a program was
// killed.
const drainTime = 2 * time.Second

// errEnded stops reading a stream whose rest is of no interest.
var errEnded = errors.New("ended")

func (e *execution) run(ctx context.Context, id string) (backend.StopReason, int, error) {
	c := e.c
	in, err := c.newInput(ctx, e.op, id, e.nonce, e.stdin)
	if err != nil {
		return "", 0, err
	}
	var f *follower
	err = c.do(ctx, call{op: e.op, id: id}, func(ctx context.Context, b *box) error {
		env, prefix := environment(e.env)
		args := append([]string{"/bin/sh", "-c", execScript, "caisson", e.nonce, e.dir, in.arg()}, viaEnv(prefix, e.argv)...)
		msg := command("/usr/bin/setsid", args, env)
		msg.Stdin = in.wanted()
		var err error
		f, err = c.start(ctx, b, e.op, msg)
		return err
	})
	if err != nil {
		return "", 0, err
	}
	defer f.close()
	in.pump(f)
	defer in.end()

	k := newKiller(ctx, f, e.timeout, drainTime, f.killAll)
	defer k.end()
	code, failed, err := e.read(f)
	if why := k.why(); why != "" {
		if ctx.Err() != nil {
			return "", 0, ctx.Err()
		}
		return why, -1, nil
	}
	switch {
	case failed != "":
		return "", 0, c.failure(e.op, failed)
	case err != nil:
		_ = f.kill(0, f.pid)
		return "", 0, c.explain(ctx, e.op, "", f.b, err)
	}
	return backend.StopExit, code, nil
}

// read passes output on until both streams have said that the command ended.
func (e *execution) read(f *follower) (code int, failed string, err error) {
	ended := 0
	mark := func(verb, rest string) error {
		switch verb {
		case "F":
			failed = rest
			return errEnded
		case "E":
			ended++
			if _, err := fmt.Sscan(rest, &code); err != nil {
				return err
			}
		}
		return nil
	}
	stdout := newMarks(e.nonce, e.out.stdout.write, mark)
	stderr := newMarks(e.nonce, e.out.stderr.write, mark)
	for ended < 2 && err == nil {
		var ev *processpb.ProcessEvent
		if ev, err = f.next(); err != nil {
			break
		}
		err = feed(ev, stdout, stderr)
		if end := ev.GetEnd(); end != nil && ended < 2 {
			// The script itself was killed, or never was.
			err = f.c.fail(e.op, backend.KindInternal, "the command's end was not seen: %s", strings.TrimSpace(end.GetStatus()))
		}
	}
	if errors.Is(err, errEnded) {
		err = nil
	}
	return code, failed, errors.Join(err, stdout.finish(), stderr.finish())
}

// feed passes an event's output on.
func feed(e *processpb.ProcessEvent, stdout, stderr *marks) error {
	d := e.GetData()
	if d == nil {
		return nil
	}
	if p := d.GetStdout(); len(p) > 0 {
		return stdout.write(p)
	}
	if p := d.GetStderr(); len(p) > 0 {
		return stderr.write(p)
	}
	return nil
}
