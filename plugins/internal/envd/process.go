package envd

import (
	"context"
	"errors"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
	"github.com/caisson-run/caisson/sdk/backend"
)

// keepAlive is how often the daemon says something on a quiet stream, in seconds.
// It is constant: 0 would bring the daemon down.
const keepAlive = "50"

// errSilent is why a stream was given up.
var errSilent = errors.New("the connection was silent for too long")

// follower is a program that is being followed. One goroutine calls next; close may be
// called by any.
type follower struct {
	c   *Client
	b   *box
	op  string
	pid uint32

	receive func() (*processpb.ProcessEvent, error)
	stop    func() error
	cancel  context.CancelCauseFunc
	ctx     context.Context
	silence *time.Timer
}

// request prepares a streaming request.
func request[T any](msg *T) *connect.Request[T] {
	r := connect.NewRequest(msg)
	r.Header().Set("Keepalive-Ping-Interval", keepAlive)
	return r
}

// start starts a program and waits until the daemon has. The stream lives until it is
// closed, whatever becomes of ctx: a deadline would be the program's, and end only
// the program itself.
func (c *Client) start(ctx context.Context, b *box, op string, msg *processpb.StartRequest) (*follower, error) {
	f := c.newFollower(ctx, b, op)
	stay := f.until(ctx) // the request itself waits for the first bytes of an answer
	s, err := b.process.Start(f.ctx, request(msg))
	if err != nil {
		stay()
		f.close()
		return nil, err
	}
	f.receive = func() (*processpb.ProcessEvent, error) {
		if s.Receive() {
			return s.Msg().GetEvent(), nil
		}
		return nil, s.Err()
	}
	f.stop = s.Close
	return f, f.begin(ctx, stay)
}

// follow attaches to a program that runs: its output from now on.
func (c *Client) follow(ctx context.Context, b *box, op string, pid uint32) (*follower, error) {
	f := c.newFollower(ctx, b, op)
	stay := f.until(ctx) // the request itself waits for the first bytes of an answer
	s, err := b.process.Connect(f.ctx, request(&processpb.ConnectRequest{Process: selector(pid)}))
	if err != nil {
		stay()
		f.close()
		return nil, err
	}
	f.receive = func() (*processpb.ProcessEvent, error) {
		if s.Receive() {
			return s.Msg().GetEvent(), nil
		}
		return nil, s.Err()
	}
	f.stop = s.Close
	return f, f.begin(ctx, stay)
}

func (c *Client) newFollower(ctx context.Context, b *box, op string) *follower {
	f := &follower{c: c, b: b, op: op}
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	f.silence = time.AfterFunc(c.opts.Silence, func() { f.cancel(errSilent) })
	return f
}

// begin waits for the first event. From then on ctx is nobody's concern: stay says so,
// and whether it was in time.
func (f *follower) begin(ctx context.Context, stay func() bool) error {
	e, err := f.next()
	if !stay() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		if s := e.GetStart(); s != nil {
			f.pid = s.GetPid()
			return nil
		}
		err = f.c.fail(f.op, backend.KindInternal, "the daemon did not say that the program started")
	}
	f.close()
	return err
}

// errNoEnd is a stream that ended before the program did.
var errNoEnd = errors.New("the stream ended before the program did")

// next returns the next event but for keep-alives. Whatever ends the stream is an
// error, also its orderly end. The time of whoever takes events is no silence.
func (f *follower) next() (*processpb.ProcessEvent, error) {
	defer f.silence.Stop()
	for {
		f.silence.Reset(f.c.opts.Silence)
		e, err := f.receive()
		if e == nil {
			switch {
			case errors.Is(context.Cause(f.ctx), errSilent):
				return nil, f.c.fail(f.op, backend.KindUnavailable, "%w", errSilent)
			case err == nil:
				return nil, f.c.fail(f.op, backend.KindUnavailable, "%w", errNoEnd)
			}
			return nil, err
		}
		if e.GetKeepalive() == nil {
			return e, nil
		}
	}
}

// until gives the stream up when ctx ends, unless what it returns is called before, which
// then is true.
func (f *follower) until(ctx context.Context) (release func() bool) {
	return context.AfterFunc(ctx, func() { f.cancel(ctx.Err()) })
}

// close leaves the program alone.
func (f *follower) close() {
	f.silence.Stop()
	f.cancel(nil)
	if f.stop != nil {
		_ = f.stop() // it was cut
	}
}

func selector(pid uint32) *processpb.ProcessSelector {
	return &processpb.ProcessSelector{Selector: &processpb.ProcessSelector_Pid{Pid: pid}}
}

// killTime bounds the killing of a process tree, which does not depend on the caller.
const killTime = 5 * time.Second

// kill ends the process groups of those leaders with SIGKILL, and tells the process
// polite, unless 0, to stop. Signals over the protocol reach one process only, and
// silence it: a second program does it better.
func (f *follower) kill(polite uint32, leaders ...uint32) error {
	args := []string{pidText(polite)}
	for _, l := range leaders {
		args = append(args, pidText(l))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), killTime)
	defer cancel()
	err := f.shell(ctx, killScript, args...)
	if err == nil {
		return nil
	}
	for _, l := range leaders { // better than nothing
		_, _ = f.b.process.SendSignal(ctx, connect.NewRequest(&processpb.SendSignalRequest{
			Process: selector(l), Signal: processpb.Signal_SIGNAL_SIGKILL,
		}))
	}
	return err
}

// killAll ends the session of the program, for whatever reason.
func (f *follower) killAll(backend.StopReason) error { return f.kill(0, f.pid) }

// interrupt ends what the script in the program's session is doing, but for the script.
func (f *follower) interrupt() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), killTime)
	defer cancel()
	return f.shell(ctx, `kill -USR1 "-$1"`, pidText(f.pid))
}

// shell runs a script beside the program, to its end.
func (f *follower) shell(ctx context.Context, text string, args ...string) error {
	k, err := f.c.start(ctx, f.b, f.op, command("/bin/sh", append([]string{"-c", text, "caisson"}, args...), nil))
	if err != nil {
		return err
	}
	defer k.close()
	defer k.until(ctx)()
	for {
		e, err := k.next()
		if err != nil || e.GetEnd() != nil {
			return err
		}
	}
}

func pidText(pid uint32) string { return strconv.FormatUint(uint64(pid), 10) }

// command is a program without input.
func command(cmd string, args []string, env map[string]string) *processpb.StartRequest {
	root, none := "/", false
	return &processpb.StartRequest{
		Process: &processpb.ProcessConfig{Cmd: cmd, Args: args, Envs: env, Cwd: &root},
		Stdin:   &none,
	}
}
