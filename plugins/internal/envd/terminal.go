package envd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	"connectrpc.com/connect"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
	"github.com/caisson-run/caisson/sdk/backend"
)

// terminalTag marks terminals of ours among the daemon's processes. Processes are not
// chosen by it: the daemon does not find them.
const terminalTag = "caisson-terminal"

// terminalScript makes sure of the directory, and of a shell.
const terminalScript = `d=$1; shift
case $d in /mnt/data) mkdir -p "$d";; esac
cd -- "$d" || exit 1
[ "$#" -eq 0 ] || exec "$@"
command -v bash >/dev/null && exec bash -i -l
exec sh -i`

// OpenTerminal implements backend.TerminalOpener.
func (c *Client) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	const op = "OpenTerminal"
	if spec.User != "" && spec.User != c.opts.User {
		return nil, c.fail(op, backend.KindUnsupported, "user: terminals run as %q, which is part of the config", c.opts.User)
	}
	dir := cmp.Or(spec.Dir, backend.DataDir)
	if err := c.invalid(op, dir); err != nil {
		return nil, err
	}
	var f *follower
	err := c.do(ctx, call{op: op, id: spec.ID}, func(ctx context.Context, b *box) (err error) {
		if spec.PID != 0 {
			f, err = c.attach(ctx, b, op, spec.PID)
			return err
		}
		f, err = c.start(ctx, b, op, terminalRequest(spec, dir))
		return err
	})
	if err != nil {
		return nil, err
	}
	t := newTerminal(f)
	if spec.PID != 0 { // what the screen shows is not replayed: let it be drawn again
		cols, rows := size(spec)
		if err := errors.Join(t.Resize(ctx, cols-1, rows), t.Resize(ctx, cols, rows)); err != nil {
			_ = t.Close()
			return nil, err
		}
	}
	return t, nil
}

func size(spec backend.TerminalSpec) (cols, rows int) {
	return clamp(cmp.Or(spec.Cols, 80)), clamp(cmp.Or(spec.Rows, 24))
}

// clamp keeps sizes from wrapping around.
func clamp(n int) int { return min(max(n, 1), 65535) }

func terminalRequest(spec backend.TerminalSpec, dir string) *processpb.StartRequest {
	env := map[string]string{"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
	for k, v := range spec.Env {
		env[k] = v
	}
	env["TERM"] = "xterm-256color"
	plain, prefix := environment(env)
	argv := spec.Argv
	if len(argv) > 0 {
		argv = viaEnv(prefix, argv)
	} else { // the login shell obeys these itself
		plain = env
	}
	msg := command("/bin/sh", append([]string{"-c", terminalScript, "caisson", dir}, argv...), plain)
	msg.Stdin = nil
	cols, rows := size(spec)
	msg.Pty = &processpb.PTY{Size: &processpb.PTY_Size{Cols: uint32(cols), Rows: uint32(rows)}}
	tag := terminalTag
	msg.Tag = &tag
	return msg
}

// attach follows a terminal of ours that still runs. Process numbers are used again
// after a sandbox was resumed without its memory.
func (c *Client) attach(ctx context.Context, b *box, op string, pid int) (*follower, error) {
	absent := c.fail(op, backend.KindNotFound, "there is no such terminal any more")
	absent.Subject = backend.SubjectTerminal
	if pid < 0 || pid > 1<<31 {
		return nil, absent
	}
	res, err := b.process.List(ctx, connect.NewRequest(&processpb.ListRequest{}))
	if err != nil {
		return nil, err
	}
	for _, p := range res.Msg.GetProcesses() {
		if p.GetPid() == uint32(pid) && p.GetTag() == terminalTag {
			f, err := c.follow(ctx, b, op, uint32(pid))
			if connect.IsWireError(err) && connect.CodeOf(err) == connect.CodeNotFound {
				return nil, absent
			}
			return f, err
		}
	}
	return nil, absent
}

// terminal is a program on a terminal.
type terminal struct {
	f       *follower
	writing sync.Mutex // writes are in order

	mu   sync.Mutex
	buf  []byte
	code int
	end  error         // what Read returns once buf is empty
	more chan struct{} // for Read: something came, or the end did
	room chan struct{} // for the reader: something was taken
	done chan struct{} // the reader has ended
	once sync.Once
}

// newTerminal begins to read what a program says.
func newTerminal(f *follower) *terminal {
	t := &terminal{f: f, more: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
	go t.read()
	return t
}

// maxUnread is how much output waits for Read before the daemon has to.
const maxUnread = 256 << 10

func (t *terminal) read() {
	defer close(t.done)
	defer t.f.close()
	for {
		e, err := t.f.next()
		t.mu.Lock()
		switch {
		case err != nil:
			t.end = t.f.c.explain(context.Background(), "OpenTerminal", backend.SubjectTerminal, t.f.b, err)
		case e.GetEnd() != nil:
			t.end, t.code = io.EOF, int(e.GetEnd().GetExitCode())
		default:
			t.buf = append(t.buf, e.GetData().GetPty()...)
		}
		end, full := t.end, len(t.buf) >= maxUnread
		t.mu.Unlock()
		wake(t.more)
		if end != nil {
			return
		}
		for full { // nobody reads: wait, as a terminal would
			select {
			case <-t.f.ctx.Done():
				full = false
			case <-t.room:
				t.mu.Lock()
				full = len(t.buf) >= maxUnread
				t.mu.Unlock()
			}
		}
	}
}

// wake tells the one who waits for c. Each side has a channel of its own: a call that
// the other side took would leave both asleep.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Read implements io.Reader. One goroutine reads.
func (t *terminal) Read(p []byte) (int, error) {
	for {
		t.mu.Lock()
		if len(t.buf) > 0 {
			n := copy(p, t.buf)
			t.buf = t.buf[n:]
			t.mu.Unlock()
			wake(t.room)
			return n, nil
		}
		end := t.end
		t.mu.Unlock()
		if end != nil {
			return 0, end
		}
		select {
		case <-t.more:
		case <-t.done:
		}
	}
}

// Write implements io.Writer. It waits while the program does not read, and is
// io.ErrClosedPipe once the program has ended.
func (t *terminal) Write(p []byte) (int, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	n := 0
	for n < len(p) {
		part := p[n:min(len(p), n+32<<10)]
		if err := t.f.send(t.f.ctx, &processpb.ProcessInput{Input: &processpb.ProcessInput_Pty{Pty: part}}); err != nil {
			if t.f.ctx.Err() != nil {
				return n, io.ErrClosedPipe // it ended, or was closed, meanwhile
			}
			return n, t.f.c.explain(context.Background(), "OpenTerminal", backend.SubjectTerminal, t.f.b, err)
		}
		n += len(part)
	}
	return n, nil
}

// PID implements backend.Terminal.
func (t *terminal) PID() int { return int(t.f.pid) }

// Resize implements backend.Terminal.
func (t *terminal) Resize(ctx context.Context, cols, rows int) error {
	ctx, cancel := t.f.c.short(ctx)
	defer cancel()
	_, err := t.f.b.process.Update(ctx, connect.NewRequest(&processpb.UpdateRequest{
		Process: selector(t.f.pid),
		Pty:     &processpb.PTY{Size: &processpb.PTY_Size{Cols: uint32(clamp(cols)), Rows: uint32(clamp(rows))}},
	}))
	if err != nil {
		return t.f.c.explain(ctx, "OpenTerminal", backend.SubjectTerminal, t.f.b, err)
	}
	return nil
}

// Exit implements backend.Terminal.
func (t *terminal) Exit() (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.code, errors.Is(t.end, io.EOF)
}

// Close detaches: the program goes on, and can be attached to again.
func (t *terminal) Close() error {
	t.once.Do(func() { t.f.cancel(context.Canceled) })
	<-t.done
	return nil
}
