package backend

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
	"github.com/caisson-run/caisson/sdk/backend/control"
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
	// watchdog stops a run whose plugin does not keep its wall limit. It stands still
	// while calls are open, as that does. It is set and used with ioMu.
	watchdog *control.Clock
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

	calls  sync.WaitGroup
	callIn map[string]*pb.ControlCall
	// withdraw cancels open calls by their id. It is guarded by ioMu.
	withdraw map[string]context.CancelFunc
	// open are the calls that wait for an answer, callBytes the input of those and
	// of unfinished ones. Both are guarded by ioMu.
	open, callBytes int
	received        struct {
		started        bool
		deaf           bool // RunIO failed: nobody listens
		stdout, stderr int64
		changes        int // bytes
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
		callIn: make(map[string]*pb.ControlCall), withdraw: make(map[string]context.CancelFunc),
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
	r.cancel()
	r.cancelCall()
	r.calls.Wait()
	r.ioMu.Lock()
	defer r.ioMu.Unlock()
	if r.watchdog != nil {
		r.watchdog.Stop()
	}
	r.over = true
	for r.senders > 0 {
		r.idle.Wait()
	}
}

// answer carries one call of the program to the host and its reply back. cancel is
// that of ctx.
func (r *runCall) answer(ctx context.Context, cancel context.CancelFunc, call ControlCall) {
	defer r.calls.Done()
	defer cancel()
	reply, err := r.io.Call(ctx, call)
	r.ioMu.Lock()
	delete(r.withdraw, call.ID)
	if r.open--; r.open == 0 && r.watchdog != nil {
		r.watchdog.Go()
	}
	r.callBytes -= len(call.Input)
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
