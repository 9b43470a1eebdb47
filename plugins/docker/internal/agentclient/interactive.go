package agentclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Busy reports how many runs, commands and terminals the agent has under way, detached
// ones included. It is a round trip, and serves as a health check.
func (c *Client) Busy(ctx context.Context) (int, error) {
	s, err := c.Status(ctx)
	return s.Busy, err
}

// LastActive is when anything last used the agent, programs included, by the age that
// the agent reports. It is a round trip that does not count as use.
func (c *Client) LastActive(ctx context.Context) (time.Time, error) {
	s, err := c.Status(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(-s.Idle), nil
}

// Watch is backend.Watcher.Watch.
func (c *Client) Watch(ctx context.Context, dir string, recursive bool, fn func(backend.WatchEvent) error) error {
	var failed error
	err := c.call(ctx, "Watch", agentwire.OpWatch, &agentwire.Watch{Path: dir, Recursive: recursive}, &agentwire.Empty{}, func(it agentwire.Item) error {
		if it.Channel == agentwire.ChanStarted {
			return nil
		}
		if it.Channel != agentwire.ChanEvents || !it.Message {
			return errUnexpected(it)
		}
		var e agentwire.Event
		if err := agentwire.Decode(it.Data, &e); err != nil {
			return err
		}
		if backend.CheckPath(e.Path) != nil || !backend.Within(dir, e.Path) {
			return errUnexpected(it)
		}
		failed = fn(backend.WatchEvent{Path: e.Path, Op: e.Op})
		return failed
	})
	if failed != nil {
		return failed
	}
	return err
}

// begun opens a stream and waits until what it asks for is there.
func (c *Client) begun(ctx context.Context, op string, code agentwire.Op, request, started agentwire.Message) (*agentwire.Stream, error) {
	st, err := c.open(ctx, code, request)
	if err != nil {
		return nil, convert(ctx, op, err)
	}
	it, err := st.Recv(ctx)
	switch {
	case errors.Is(err, io.EOF):
		if err = st.Answer(&agentwire.Empty{}); err == nil {
			err = backend.Errorf(backend.KindInternal, "", "it ended before it began")
		}
	case err == nil && (it.Channel != agentwire.ChanStarted || !it.Message):
		err = errUnexpected(it)
	case err == nil:
		err = agentwire.Decode(it.Data, started)
	}
	if err != nil {
		st.Leave()
		return nil, convert(ctx, op, err)
	}
	return st, nil
}

// OpenTerminal is backend.TerminalOpener.OpenTerminal. Terminals can be attached to
// again by their PID, for half an hour after the last one left; Close detaches.
func (c *Client) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	const op = "OpenTerminal"
	if spec.User != "" {
		return nil, backend.Errorf(backend.KindUnsupported, op, "user: the agent chooses it")
	}
	var n agentwire.Number
	st, err := c.begun(ctx, op, agentwire.OpTerminal, &agentwire.Terminal{
		PID: spec.PID, Argv: spec.Argv, Dir: spec.Dir, Env: c.env(spec.Env), Size: agentwire.Size{Cols: spec.Cols, Rows: spec.Rows},
	}, &n)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &terminal{st: st, pid: n.N, life: life, stop: stop}, nil
}

// terminal is an open one.
type terminal struct {
	st   *agentwire.Stream
	pid  int
	life context.Context
	stop func()

	reading sync.Mutex
	rest    []byte
	err     error // of reading

	mu   sync.Mutex
	code int
	over bool
}

func (t *terminal) PID() int { return t.pid }

func (t *terminal) Read(p []byte) (int, error) {
	t.reading.Lock()
	defer t.reading.Unlock()
	for len(t.rest) == 0 && t.err == nil {
		it, err := t.st.Recv(t.life)
		switch {
		case errors.Is(err, io.EOF):
			var n agentwire.Number
			if err := t.st.Answer(&n); err != nil {
				t.err = convert(t.life, "Read", err)
				continue
			}
			t.mu.Lock()
			t.code, t.over = n.N, true
			t.mu.Unlock()
			t.err = io.EOF
		case t.life.Err() != nil:
			t.err = io.ErrClosedPipe
		case err != nil:
			t.err = convert(t.life, "Read", err)
		case it.Channel != agentwire.ChanContent || it.Message:
			t.err = convert(t.life, "Read", errUnexpected(it))
		default:
			t.rest = it.Data
		}
	}
	if len(t.rest) == 0 {
		return 0, t.err
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

func (t *terminal) Write(p []byte) (int, error) {
	if err := t.st.Send(t.life, agentwire.ChanContent, p); err != nil {
		if t.life.Err() != nil {
			return 0, io.ErrClosedPipe
		}
		return 0, convert(t.life, "Write", err)
	}
	return len(p), nil
}

func (t *terminal) Resize(ctx context.Context, cols, rows int) error {
	err := t.st.SendMessage(ctx, agentwire.ChanSize, &agentwire.Size{Cols: cols, Rows: rows})
	if errors.Is(err, io.ErrClosedPipe) {
		return nil // it has ended
	}
	return convert(ctx, "Resize", err)
}

func (t *terminal) Exit() (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.code, t.over
}

func (t *terminal) Close() error {
	t.stop()
	t.st.Leave()
	return nil
}
