package backend

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// openStream opens a stream that lives until it is cancelled; ctx bounds the
// opening only, which ends with the first answer.
func openStream[Req, Resp any](
	ctx context.Context, op string,
	open func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[Req, Resp], error), first *Req,
) (grpc.BidiStreamingClient[Req, Resp], *Resp, context.CancelFunc, error) {
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, cancel)
	fail := func(err error) (grpc.BidiStreamingClient[Req, Resp], *Resp, context.CancelFunc, error) {
		unwatch()
		cancel()
		return nil, nil, nil, fromStatus(ctx, op, err)
	}
	stream, err := open(streamCtx)
	if err != nil {
		return fail(err)
	}
	if err := stream.Send(first); err != nil && !errors.Is(err, io.EOF) {
		return fail(err)
	}
	answer, err := stream.Recv()
	if errors.Is(err, io.EOF) {
		err = toStatus(ctx, op, violation(op, "the stream ended without an answer"))
	}
	if err != nil {
		return fail(err)
	}
	if !unwatch() {
		return fail(ctx.Err())
	}
	return stream, answer, cancel, nil
}

func (c *client) OpenTerminal(ctx context.Context, spec TerminalSpec) (Terminal, error) {
	const op = "OpenTerminal"
	stream, first, cancel, err := openStream(ctx, op, c.pb.OpenTerminal, &pb.TerminalIn{Frame: &pb.TerminalIn_Open{Open: &pb.TerminalOpen{
		Ref:  toPBRef(spec.Ref),
		Pid:  int64(spec.PID),
		Argv: toBytes(spec.Argv),
		Dir:  []byte(spec.Dir),
		User: spec.User,
		Env:  toBytesMap(spec.Env),
		Cols: int32(spec.Cols),
		Rows: int32(spec.Rows),
	}}})
	if err != nil {
		return nil, err
	}
	opened := first.GetOpened()
	if opened == nil {
		cancel()
		return nil, violation(op, "the first frame is not an answer to open")
	}
	t := &terminal{
		stream: stream, cancel: cancel, pid: int(opened.GetPid()),
		inbox:   newInbox(stream.Context()),
		sending: make(chan struct{}, 1),
		resizes: make(map[uint64]chan error),
	}
	go t.receive()
	return t, nil
}

// terminal is a Terminal at the other end of a stream.
type terminal struct {
	stream grpc.BidiStreamingClient[pb.TerminalIn, pb.TerminalOut]
	cancel context.CancelFunc
	pid    int
	inbox  *inbox

	sending chan struct{} // holds a token while somebody sends

	mu      sync.Mutex
	seq     uint64
	resizes map[uint64]chan error
	code    int
	exited  bool
}

func (t *terminal) receive() {
	err := t.frames()
	switch {
	case errors.Is(err, io.EOF):
		err = io.EOF
	case t.inbox.closed():
		err = io.ErrClosedPipe
	default:
		err = fromStatus(context.Background(), "Terminal", err)
	}
	t.inbox.finish(err)
}

func (t *terminal) frames() error {
	for {
		frame, err := t.stream.Recv()
		if err != nil {
			return err
		}
		switch f := frame.GetFrame().(type) {
		case *pb.TerminalOut_Data:
			if err := t.inbox.put(f.Data); err != nil {
				return err
			}
		case *pb.TerminalOut_Resized:
			t.mu.Lock()
			done, ok := t.resizes[f.Resized.GetSeq()]
			delete(t.resizes, f.Resized.GetSeq())
			t.mu.Unlock()
			if !ok {
				continue // given up meanwhile
			}
			if e := f.Resized.GetError(); e != nil {
				done <- fromPBError(e)
			}
			close(done)
		case *pb.TerminalOut_Exit:
			t.mu.Lock()
			t.code, t.exited = int(f.Exit.GetCode()), f.Exit.GetKnown()
			t.mu.Unlock()
			return io.EOF
		default:
			return toStatus(context.Background(), "Terminal", violation("Terminal", "an unknown frame"))
		}
	}
}

// send sends a frame. When ctx ends first it may have been sent, or be sent yet.
func (t *terminal) send(ctx context.Context, f *pb.TerminalIn) error {
	select {
	case t.sending <- struct{}{}:
	case <-t.inbox.ended:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
	sent := make(chan error, 1)
	go func() { // ends when the other side takes it, or with the stream
		err := t.stream.Send(f)
		<-t.sending
		sent <- err
	}()
	select {
	case err := <-sent:
		if err != nil {
			return io.ErrClosedPipe
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *terminal) Read(p []byte) (int, error) { return t.inbox.Read(p) }

func (t *terminal) Write(p []byte) (int, error) {
	n := 0
	for piece := range chunks(p) {
		// Without an end of its own: piece is the caller's again afterwards.
		if err := t.send(context.Background(), &pb.TerminalIn{Frame: &pb.TerminalIn_Data{Data: piece}}); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

func (t *terminal) PID() int { return t.pid }

func (t *terminal) Resize(ctx context.Context, cols, rows int) error {
	done := make(chan error, 1)
	t.mu.Lock()
	t.seq++
	seq := t.seq
	t.resizes[seq] = done
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.resizes, seq)
		t.mu.Unlock()
	}()
	if err := t.send(ctx, &pb.TerminalIn{Frame: &pb.TerminalIn_Resize{
		Resize: &pb.TerminalResize{Seq: seq, Cols: int32(cols), Rows: int32(rows)},
	}}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-t.inbox.ended:
		return io.ErrClosedPipe
	}
}

func (t *terminal) Exit() (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.code, t.exited
}

func (t *terminal) Close() error {
	t.inbox.close()
	t.cancel()
	<-t.inbox.ended
	return nil
}
