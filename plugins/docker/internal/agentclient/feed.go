package agentclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
)

// feeder sends the content of inputs, in order, and then stdin. Its goroutine ends with
// the run, except for a Read that the host does not end.
type feeder struct {
	c      *Client
	st     *agentwire.Stream
	live   backend.RunIO
	source []byte // nil unless it goes first
	inputs []backend.Input
	wire   []agentwire.Input
	stdin  bool

	mu    sync.Mutex
	sent  bool
	cause error // of an input that a run cannot do without
}

// done reports whether everything was sent.
func (f *feeder) done() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent
}

// failure is why an input could not be sent.
func (f *feeder) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cause
}

func (f *feeder) run(ctx context.Context) {
	if f.source != nil {
		_, err := sendContent(ctx, f.st, agentwire.ChanInput, bytes.NewReader(f.source))
		if err != nil || f.st.SendMessage(ctx, agentwire.ChanInput, &agentwire.InputEnd{}) != nil {
			return
		}
	}
	for i := range f.inputs {
		if f.wire[i].Inline {
			continue
		}
		if f.input(ctx, i) != nil {
			return // the stream is over
		}
	}
	if f.stdin {
		_, err := sendContent(ctx, f.st, agentwire.ChanContent, f.live.Stdin())
		if err != nil || f.st.SendMessage(ctx, agentwire.ChanContent, &agentwire.ContentEnd{}) != nil {
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = true
}

// input sends one. The error is the stream's.
func (f *feeder) input(ctx context.Context, i int) error {
	in := &f.inputs[i]
	r, mode, err := f.open(ctx, i)
	if err == nil {
		var sendErr error
		err, sendErr = sendContent(ctx, f.st, agentwire.ChanInput, r)
		_ = r.Close()
		if sendErr != nil {
			return sendErr
		}
	}
	end := &agentwire.InputEnd{Mode: mode}
	if err != nil {
		if !in.Optional && ctx.Err() == nil {
			f.mu.Lock()
			f.cause = inputError(in, err)
			f.mu.Unlock()
		}
		end.Fault = agentwire.Fault{Kind: string(backend.KindUnavailable), Text: "the content could not be had"}
	}
	return f.st.SendMessage(ctx, agentwire.ChanInput, end)
}

// open opens the content of an input.
func (f *feeder) open(ctx context.Context, i int) (io.ReadCloser, uint32, error) {
	switch in := &f.inputs[i]; {
	case in.CopyFrom != nil && f.c.opts.CopyFrom == nil:
		return nil, 0, errors.New("files of other sandboxes are not to be had here")
	case in.CopyFrom != nil:
		r, e, err := f.c.opts.CopyFrom(ctx, *in.CopyFrom)
		return r, e.Mode, err
	case in.Chunked:
		r, err := f.live.Input(i)
		if err != nil {
			return nil, 0, err
		}
		return io.NopCloser(r), 0, nil
	default:
		return io.NopCloser(bytes.NewReader(in.Inline)), 0, nil
	}
}

// inputError is what a run says about an input that could not be had. Whatever is wrong
// with another sandbox says nothing about this one.
func inputError(in *backend.Input, err error) error {
	if in.CopyFrom == nil {
		return fmt.Errorf("input %q: %w", in.Path, err)
	}
	kind := backend.KindOf(err)
	if kind == backend.KindTerminal {
		kind = backend.KindNotFound
	}
	e := backend.Errorf(kind, "Run", "input %q: copy from %q: %s", in.Path, in.CopyFrom.Path, err)
	e.Subject, e.Plane = backend.SubjectFile, backend.PlaneData
	return e
}
