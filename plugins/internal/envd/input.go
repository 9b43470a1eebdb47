package envd

import (
	"context"
	"errors"
	"io"
	"path"
	"sync"

	"connectrpc.com/connect"
	"golang.org/x/mod/semver"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/processpb"
	"github.com/caisson-run/caisson/sdk/backend"
)

// input is a program's standard input: nothing, a pipe that is fed while it runs, or,
// where a daemon cannot close pipes, a file that was put there before.
type input struct {
	reader io.Reader
	file   string
	piped  bool
	cancel context.CancelFunc
}

// since is the daemon's version that can close a program's input.
const sinceCloseStdin = "v0.5.2"

// newInput prepares what reader holds; nil is an input at its end.
func (c *Client) newInput(ctx context.Context, op, id, nonce string, reader io.Reader) (*input, error) {
	in := &input{reader: reader}
	if reader == nil {
		return in, nil
	}
	err := c.do(ctx, call{op: op, id: id, again: true}, func(ctx context.Context, b *box) error {
		var err error
		in.piped, err = b.closesInput(ctx)
		return err
	})
	if err != nil || in.piped {
		return in, err
	}
	in.file = path.Join(stateDir, "in-"+nonce)
	_, err = c.upload(ctx, op, id, in.file, reader)
	return in, err
}

// closing is whether a daemon can close a program's input.
type closing struct {
	once sync.Mutex
	can  *bool
}

// closesInput asks the daemon unless its version says it: by closing the input of a
// process that is none.
func (b *box) closesInput(ctx context.Context) (bool, error) {
	if v := "v" + b.endpoint.Version; semver.IsValid(v) {
		return semver.Compare(v, sinceCloseStdin) >= 0, nil
	}
	b.closing.once.Lock()
	defer b.closing.once.Unlock()
	if b.closing.can != nil {
		return *b.closing.can, nil
	}
	_, err := b.process.CloseStdin(ctx, connect.NewRequest(&processpb.CloseStdinRequest{Process: selector(0)}))
	can := true
	var ce *connect.Error
	r, answered := reply(err)
	switch {
	case err == nil:
	case answered && r.Status == 404 && !r.JSON && !r.Page:
		can = false
	case answered || !errors.As(err, &ce) || !connect.IsWireError(err):
		return false, err
	case ce.Code() == connect.CodeUnimplemented:
		can = false
	case ce.Code() != connect.CodeNotFound && ce.Code() != connect.CodeInvalidArgument:
		return false, err
	}
	b.closing.can = &can
	return can, nil
}

// arg tells the script where the input is.
func (in *input) arg() string {
	if in.piped {
		return "-"
	}
	return in.file
}

// wanted is what the daemon is told: without being told no, it leaves a pipe open.
func (in *input) wanted() *bool { return &in.piped }

// pump feeds a piped input from now on. A Read of the reader may outlive end.
func (in *input) pump(f *follower) {
	if !in.piped {
		return
	}
	var ctx context.Context
	ctx, in.cancel = context.WithCancel(f.ctx)
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := io.ReadAtLeast(in.reader, buf, 1)
			if n > 0 {
				// It waits while the program does not read. When it fails, the program
				// has ended, or reads no more.
				if f.send(ctx, &processpb.ProcessInput{Input: &processpb.ProcessInput_Stdin{Stdin: buf[:n]}}) != nil {
					return
				}
			}
			if err != nil || ctx.Err() != nil {
				break
			}
		}
		_, _ = f.b.process.CloseStdin(ctx, connect.NewRequest(&processpb.CloseStdinRequest{Process: selector(f.pid)}))
	}()
}

// end stops feeding.
func (in *input) end() {
	if in.cancel != nil {
		in.cancel()
	}
}

// send writes to the program.
func (f *follower) send(ctx context.Context, p *processpb.ProcessInput) error {
	_, err := f.b.process.SendInput(ctx, connect.NewRequest(&processpb.SendInputRequest{Process: selector(f.pid), Input: p}))
	return err
}

// errUnread is content whose reader failed: what was stored of it is not it.
var errUnread = errors.New("the content could not be read to its end")

// unread makes the error of a reader that failed, which is the caller's.
func (c *Client) unread(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if b := (*backend.Error)(nil); errors.As(err, &b) {
		return err
	}
	e := c.fail(op, backend.KindInvalidRequest, "%w: %w", errUnread, err)
	e.Subject = backend.SubjectFile
	return e
}
