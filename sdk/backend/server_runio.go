package backend

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// runConn is the RunIO that a served backend gets: the host's, at the other end
// of the stream.
type runConn struct {
	stream runStream
	op     string
	spec   RunSpec
	// attached runs began elsewhere: their output needs no Started here.
	attached bool

	// ctx ends when the host cancels or the stream breaks.
	ctx      context.Context
	cancel   context.CancelFunc
	received chan struct{}

	inputs, stdin *feed
	// opened is the index after the last input that was asked for.
	opened int

	sendMu sync.Mutex

	mu      sync.Mutex
	started bool
	calls   map[string]*openCall
}

// openCall waits for its reply.
type openCall struct {
	result []byte
	done   chan callAnswer
}

type callAnswer struct {
	reply ControlReply
	err   error
}

var _ RunIO = (*runConn)(nil)

func newRunConn(stream runStream, spec RunSpec, op string) *runConn {
	c := &runConn{
		stream: stream, op: op, spec: spec,
		received: make(chan struct{}),
		calls:    make(map[string]*openCall),
	}
	c.ctx, c.cancel = context.WithCancel(stream.Context())
	// A grant that cannot be sent means that the stream is broken, which
	// receive notices.
	c.inputs = newFeed(func(n int64) {
		_ = c.send(&pb.RunOut{Frame: &pb.RunOut_Credit{Credit: &pb.Credit{InputBytes: n}}})
	})
	c.stdin = newFeed(func(n int64) {
		_ = c.send(&pb.RunOut{Frame: &pb.RunOut_Credit{Credit: &pb.Credit{StdinBytes: n}}})
	})
	go c.receive()
	return c
}

// close releases what waits on the run. receive ends by itself with the stream,
// right after the handler returns.
func (c *runConn) close() { c.cancel() }

func (c *runConn) send(frame *pb.RunOut) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.stream.Send(frame)
}

func (c *runConn) Input(index int) (io.Reader, error) {
	switch {
	case index < 0 || index >= len(c.spec.Inputs) || !c.spec.Inputs[index].Chunked:
		return nil, Errorf(KindInternal, c.op, "input %d is not a chunked input", index)
	case index < c.opened:
		return nil, Errorf(KindInternal, c.op, "input %d was read already", index)
	}
	c.opened = index + 1
	return &feedReader{ctx: c.ctx, feed: c.inputs, index: index}, nil
}

func (c *runConn) Stdin() io.Reader {
	if !c.spec.Stdin {
		return eof{}
	}
	return &feedReader{ctx: c.ctx, feed: c.stdin}
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

func (c *runConn) Started() error {
	c.mu.Lock()
	again := c.started
	c.started = true
	c.mu.Unlock()
	if again {
		return Errorf(KindInternal, c.op, "Started was called twice")
	}
	c.inputs.drop() // inputs come before Started
	return c.send(&pb.RunOut{Frame: &pb.RunOut_Started{Started: &pb.RunStarted{}}})
}

func (c *runConn) Stdout(p []byte) error {
	return c.output(p, func(p []byte) *pb.RunOut { return &pb.RunOut{Frame: &pb.RunOut_Stdout{Stdout: p}} })
}

func (c *runConn) Stderr(p []byte) error {
	return c.output(p, func(p []byte) *pb.RunOut { return &pb.RunOut{Frame: &pb.RunOut_Stderr{Stderr: p}} })
}

func (c *runConn) output(p []byte, frame func([]byte) *pb.RunOut) error {
	if !c.running() {
		return Errorf(KindInternal, c.op, "output before Started")
	}
	for piece := range chunks(p) {
		if err := c.send(frame(piece)); err != nil {
			return err
		}
	}
	return nil
}

func (c *runConn) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started || c.attached
}

func (c *runConn) Call(ctx context.Context, call ControlCall) (ControlReply, error) {
	switch {
	case !c.spec.Control:
		return ControlReply{}, Errorf(KindUnsupported, c.op, "the run offers no calls")
	case !c.running():
		return ControlReply{}, Errorf(KindInternal, c.op, "a call before Started")
	case call.ID == "" || len(call.Input) > maxCall:
		return ControlReply{}, Errorf(KindInvalidRequest, c.op, "a call needs an id and at most %d bytes of input", maxCall)
	}
	open, err := c.openCall(call.ID)
	if err != nil {
		return ControlReply{}, err
	}
	defer func() {
		c.mu.Lock()
		delete(c.calls, call.ID)
		c.mu.Unlock()
	}()

	if err := sendPieces(call.Input, func(i int, p []byte, last bool) error {
		f := &pb.ControlCall{Id: call.ID, Input: p, Last: last}
		if i == 0 {
			f.Name = call.Name
		}
		return c.send(&pb.RunOut{Frame: &pb.RunOut_Call{Call: f}})
	}); err != nil {
		return ControlReply{}, err
	}
	select {
	case a := <-open.done:
		return a.reply, a.err
	case <-c.received:
		return ControlReply{}, errors.New("the host is gone")
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	// The host need not go on with it. It still answers once it does not: a call whose
	// end was not awaited would be open there when its room is used for another.
	if err := c.send(&pb.RunOut{Frame: &pb.RunOut_Call{Call: &pb.ControlCall{Id: call.ID, Withdrawn: true}}}); err != nil {
		return ControlReply{}, err
	}
	select {
	case <-open.done:
	case <-c.received:
	case <-c.ctx.Done():
	}
	return ControlReply{}, cmp.Or(ctx.Err(), c.ctx.Err())
}

func (c *runConn) openCall(id string) (*openCall, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, exists := c.calls[id]; exists {
		return nil, Errorf(KindConflict, c.op, "call id %q is in use", id)
	}
	if len(c.calls) >= maxOpenCalls {
		return nil, Errorf(KindCapacity, c.op, "%d calls wait for an answer", maxOpenCalls)
	}
	open := &openCall{done: make(chan callAnswer, 1)}
	c.calls[id] = open
	return open, nil
}

func (c *runConn) reply(r *pb.ControlReply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	open, ok := c.calls[r.GetId()]
	if !ok {
		return nil // given up meanwhile
	}
	if open.result = append(open.result, r.GetResult()...); len(open.result) > maxCall {
		return errors.New("the result of a call is too large")
	}
	if !r.GetLast() {
		return nil
	}
	delete(c.calls, r.GetId())
	a := callAnswer{reply: ControlReply{Result: open.result, Error: r.GetError()}}
	if f := r.GetFailure(); f != "" {
		a = callAnswer{err: errors.New(f)}
	}
	open.done <- a
	return nil
}

// sendPieces cuts content into frames, at least one, and marks the last.
func sendPieces(p []byte, send func(i int, p []byte, last bool) error) error {
	for i := 0; ; i++ {
		n := min(len(p), chunkBytes)
		if err := send(i, p[:n], n == len(p)); err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
	}
}
