package backend

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

type runClientStream = grpc.BidiStreamingClient[pb.RunIn, pb.RunOut]

func (c *client) Run(ctx context.Context, spec RunSpec, live RunIO) (RunResult, error) {
	if err := spec.Check(); err != nil {
		return RunResult{}, err
	}
	start := &pb.RunIn{Frame: &pb.RunIn_Start{Start: toPBStart(spec, 0)}}
	if err := checkSize("Run", start); err != nil {
		return RunResult{}, err
	}
	call, err := c.openRun(ctx, "Run", c.pb.Run, start)
	if err != nil {
		return RunResult{}, err
	}
	defer call.close()
	call.spec, call.io = spec, live
	call.sendAll()
	res, err := call.follow()
	if err == nil {
		err = call.check(res)
	}
	if err != nil {
		return RunResult{}, err
	}
	return res, nil
}

func (c *client) StartRun(ctx context.Context, spec DetachedStart, live RunIO) error {
	if err := spec.Check(); err != nil {
		return err
	}
	start := &pb.RunIn{Frame: &pb.RunIn_Start{Start: toPBStart(spec.RunSpec, spec.TTL)}}
	if err := checkSize("StartRun", start); err != nil {
		return err
	}
	call, err := c.openRun(ctx, "StartRun", c.pb.StartRun, start)
	if err != nil {
		return err
	}
	defer call.close()
	call.spec, call.io, call.detached = spec.RunSpec, live, true
	call.sendAll()
	_, err = call.follow()
	return err
}

func (c *client) AttachRun(ctx context.Context, ref Ref, runID string, live RunIO) (RunResult, error) {
	call, err := c.openRun(ctx, "AttachRun", c.pb.AttachRun, &pb.RunIn{Frame: &pb.RunIn_Attach{
		Attach: &pb.RunAttach{Ref: toPBRef(ref), RunId: runID},
	}})
	if err != nil {
		return RunResult{}, err
	}
	defer call.close()
	call.spec = RunSpec{Control: true, Stdin: true}
	call.io, call.attached = live, true
	call.sendAll()
	res, err := call.follow()
	if err == nil {
		// What the run was asked for is not known here: check what holds for all.
		if bad := checkOutcome(res, "/", CollectSpec{}); bad != nil {
			err = violation(call.op, "%w", bad)
		}
	}
	if err != nil {
		return RunResult{}, err
	}
	return res, nil
}

// runCall is one run seen from the host.
//
// The stream does not live on the caller's context: when that ends, the plugin
// is told to stop, and what the run came to until then is still received.
type runCall struct {
	op     string
	spec   RunSpec
	io     RunIO
	stream runClientStream

	caller context.Context // the caller's
	ctx    context.Context // the stream's
	cancel context.CancelFunc
	grace  time.Duration
	// watchdog stops a run whose plugin does not keep its wall limit.
	watchdog *time.Timer
	overrun  time.Duration
	// callCtx is for RunIO.Call: it ends with the caller or with the run.
	callCtx    context.Context
	cancelCall context.CancelFunc
	// unwatch stops waiting for the caller's end.
	unwatch func() bool
	// stop tells the plugin to stop and allows it the grace.
	stop func()

	// attached runs began elsewhere; detached ones go on after the call.
	attached, detached bool

	sendMu        sync.Mutex
	inputs, stdin *credit

	// Senders use what is the caller's, so the call waits for them, but not for one
	// that reads: a reader may wait for ever for what nobody will send.
	ioMu    sync.Mutex
	idle    *sync.Cond // with ioMu: no sender is active
	senders int        // active ones
	over    bool
	readErr error // of a chunked input

	calls    sync.WaitGroup
	callIn   map[string]*pb.ControlCall
	open     int // calls that wait for an answer; guarded by ioMu
	received struct {
		started        bool
		deaf           bool // RunIO failed: nobody listens
		stdout, stderr int64
	}
}

// openRun opens the stream and sends the first frame. Until that is done nothing
// runs, so the caller's end simply ends the stream.
func (c *client) openRun(
	ctx context.Context, op string,
	open func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[pb.RunIn, pb.RunOut], error),
	first *pb.RunIn,
) (*runCall, error) {
	if err := ctx.Err(); err != nil {
		return nil, fromStatus(ctx, op, err)
	}
	r := &runCall{
		op: op, caller: ctx, grace: c.grace, overrun: c.overrun,
		inputs: newCredit(), stdin: newCredit(),
		callIn: make(map[string]*pb.ControlCall),
	}
	r.idle = sync.NewCond(&r.ioMu)
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, r.cancel)
	stream, err := open(r.ctx)
	if err == nil {
		r.stream = stream
		if err = stream.Send(first); errors.Is(err, io.EOF) {
			err = nil // follow receives the reason
		}
	}
	if err != nil || !unwatch() {
		r.cancel()
		if err == nil {
			err = ctx.Err()
		}
		return nil, fromStatus(ctx, op, err)
	}
	r.stop = sync.OnceFunc(func() {
		timer := time.AfterFunc(r.grace, r.cancel)
		context.AfterFunc(r.ctx, func() { timer.Stop() })
		_ = r.send(&pb.RunIn{Frame: &pb.RunIn_Cancel{Cancel: &pb.RunCancel{}}})
	})
	r.unwatch = context.AfterFunc(ctx, r.stop)
	r.callCtx, r.cancelCall = context.WithCancel(ctx)
	return r, nil
}

// close ends everything that serves the call. What reads an input or stdin at
// this moment ends with that Read.
func (r *runCall) close() {
	r.unwatch()
	if r.watchdog != nil {
		r.watchdog.Stop()
	}
	r.cancel()
	r.cancelCall()
	r.calls.Wait()
	r.ioMu.Lock()
	defer r.ioMu.Unlock()
	r.over = true
	for r.senders > 0 {
		r.idle.Wait()
	}
}

// errOver ends a sender that finds the call over after a Read. It is not active
// any more and may touch nothing.
var errOver = errors.New("the run is over")

// join makes a sender active.
func (r *runCall) join() error {
	r.ioMu.Lock()
	defer r.ioMu.Unlock()
	if r.over {
		return errOver
	}
	r.senders++
	return nil
}

// leave ends or suspends an active sender.
func (r *runCall) leave() {
	r.ioMu.Lock()
	defer r.ioMu.Unlock()
	if r.senders--; r.senders == 0 {
		r.idle.Broadcast()
	}
}

// sender runs f as an active sender. A failed send needs no handling: receiving
// fails too and says why.
func (r *runCall) sender(f func() error) {
	if r.join() != nil {
		return
	}
	go func() {
		if err := f(); !errors.Is(err, errOver) {
			r.leave()
		}
	}()
}

func (r *runCall) send(f *pb.RunIn) error {
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	return r.stream.Send(f)
}

// sendAll starts sending content.
func (r *runCall) sendAll() {
	r.sender(func() error {
		if err := r.sendHeld(); err != nil {
			return err
		}
		if r.spec.Stdin {
			r.sender(r.sendStdin)
		}
		return r.sendChunked()
	})
}

// sendHeld sends what the plugin holds before the run begins.
func (r *runCall) sendHeld() error {
	if r.attached {
		return nil
	}
	if err := sendPieces(r.spec.Program.Source, func(_ int, p []byte, last bool) error {
		return r.send(&pb.RunIn{Frame: &pb.RunIn_Program{Program: &pb.ProgramChunk{Data: p, Last: last}}})
	}); err != nil {
		return err
	}
	for i, in := range r.spec.Inputs {
		if in.Inline == nil {
			continue
		}
		if err := sendPieces(in.Inline, func(_ int, p []byte, last bool) error { return r.sendInput(i, p, last, "") }); err != nil {
			return err
		}
	}
	return nil
}

func (r *runCall) sendInput(i int, p []byte, last bool, failure string) error {
	return r.send(&pb.RunIn{Frame: &pb.RunIn_Input{
		Input: &pb.InputChunk{Index: int32(i), Data: p, Last: last, Error: failure},
	}})
}

// sendChunked sends what the plugin reads as a stream.
func (r *runCall) sendChunked() error {
	for i, in := range r.spec.Inputs {
		if !in.Chunked {
			continue
		}
		content, err := r.io.Input(i)
		if err != nil {
			err = sourceError{err}
		} else {
			err = r.sendStream(content, r.inputs, func(p []byte, last bool) error { return r.sendInput(i, p, last, "") })
		}
		var failed sourceError
		switch {
		case errors.As(err, &failed):
			r.ioMu.Lock()
			r.readErr = failed.err
			r.ioMu.Unlock()
			if err := r.sendInput(i, nil, true, "the host could not read this input"); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *runCall) sendStdin() error {
	send := func(p []byte, last bool, failure string) error {
		return r.send(&pb.RunIn{Frame: &pb.RunIn_Stdin{Stdin: &pb.StdinChunk{Data: p, Last: last, Error: failure}}})
	}
	content := r.io.Stdin()
	if content == nil {
		content = eof{}
	}
	err := r.sendStream(content, r.stdin, func(p []byte, last bool) error { return send(p, last, "") })
	var failed sourceError
	if errors.As(err, &failed) {
		return send(nil, true, "the host could not read stdin")
	}
	return err
}

// sendStream sends content as it can be read, within credit.
func (r *runCall) sendStream(content io.Reader, c *credit, send func(p []byte, last bool) error) error {
	buf := make([]byte, chunkBytes)
	for {
		r.leave()
		n, err := content.Read(buf)
		if err := r.join(); err != nil {
			return err
		}
		for p := buf[:n]; len(p) > 0; {
			m, err := c.take(r.ctx, len(p))
			if err != nil {
				return err
			}
			if err := send(p[:m], false); err != nil {
				return err
			}
			p = p[m:]
		}
		switch {
		case err == io.EOF: //nolint:errorlint // a wrapped EOF is no end of content
			return send(nil, true)
		case err != nil:
			return sourceError{err}
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
}

// answer carries one call of the program to the host and its reply back.
func (r *runCall) answer(call ControlCall) {
	defer r.calls.Done()
	reply, err := r.io.Call(r.callCtx, call)
	r.ioMu.Lock()
	r.open--
	r.ioMu.Unlock()
	if err == nil && (len(reply.Result) > maxCall || len(reply.Error) > chunkBytes) {
		err = errors.New("the result is too large")
	}
	if err != nil {
		_ = r.send(&pb.RunIn{Frame: &pb.RunIn_Reply{Reply: &pb.ControlReply{Id: call.ID, Last: true, Failure: errorText(err.Error())}}})
		return
	}
	_ = sendPieces(reply.Result, func(_ int, p []byte, last bool) error {
		f := &pb.ControlReply{Id: call.ID, Result: p, Last: last}
		if last {
			f.Error = text(reply.Error)
		}
		return r.send(&pb.RunIn{Frame: &pb.RunIn_Reply{Reply: f}})
	})
}

// check holds the result against the spec and what was received.
func (r *runCall) check(res RunResult) error {
	if res.Stop == StopLost && !r.received.started {
		return violation(r.op, "a run that was lost before it started")
	}
	if err := r.spec.CheckResult(res); err != nil {
		return violation(r.op, "%w", err)
	}
	return nil
}
