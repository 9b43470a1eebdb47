package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// follow receives a run to its end. Whatever goes wrong, it returns: the stream
// ends with the plugin, with the grace after a cancellation, or with the call.
func (r *runCall) follow() (RunResult, error) {
	var (
		res    RunResult
		exited bool
	)
	for {
		frame, err := r.stream.Recv()
		if errors.Is(err, io.EOF) {
			if !exited && !r.detached {
				return RunResult{}, violation(r.op, "the stream ended without a result")
			}
			return res, nil
		}
		if err != nil {
			if exited && detailOf(err) == nil {
				return res, nil // the result is complete, only the goodbye is missing
			}
			return r.failed(err)
		}
		if exited {
			return RunResult{}, violation(r.op, "a frame after the result")
		}
		if exited, err = r.frame(frame, &res); err != nil {
			return RunResult{}, err
		}
		if exited {
			// The stream ends now, or is ended: nothing more can come of it.
			defer time.AfterFunc(r.grace, r.cancel).Stop()
		}
	}
}

// failed decides what a broken or refused run came to.
func (r *runCall) failed(err error) (RunResult, error) {
	r.ioMu.Lock()
	readErr := r.readErr
	r.ioMu.Unlock()
	switch detail := detailOf(err); {
	case readErr != nil && !r.received.started:
		return RunResult{}, Errorf(KindInvalidRequest, r.op, "reading an input: %w", readErr)
	case detail != nil:
		return RunResult{}, detail
	case r.received.started && !r.detached:
		lost := RunResult{
			Stop: StopLost, ExitCode: -1, CollectFailed: true,
			StdoutBytes: r.received.stdout, StderrBytes: r.received.stderr,
			Message: "the plugin was lost while the program ran",
		}
		if r.ctx.Err() != nil { // we gave up, after the grace
			lost.Message = fmt.Sprintf("stopped; the plugin did not report within %v", r.grace)
		}
		return lost, nil
	default:
		return RunResult{}, fromStatus(r.caller, r.op, err)
	}
}

// frame handles one frame and says whether it was the last.
func (r *runCall) frame(frame *pb.RunOut, res *RunResult) (exited bool, err error) {
	got := &r.received
	switch f := frame.GetFrame().(type) {
	case *pb.RunOut_Credit:
		err := r.inputs.give(f.Credit.GetInputBytes())
		if err == nil {
			err = r.stdin.give(f.Credit.GetStdinBytes())
		}
		if err != nil {
			return false, violation(r.op, "%w", err)
		}
	case *pb.RunOut_Started:
		if got.started || r.attached {
			return false, violation(r.op, "a second start")
		}
		got.started = true
		if wall := r.spec.Limits.Wall; wall > 0 && !r.detached {
			r.ioMu.Lock()
			r.watchdog = control.NewClock(wall+r.overrun, r.stop)
			r.ioMu.Unlock()
		}
		r.heard(r.io.Started)
	case *pb.RunOut_Stdout:
		got.stdout += int64(len(f.Stdout))
		if err := r.output("stdout", got.stdout, r.spec.Limits.StdoutBytes); err != nil {
			return false, err
		}
		r.heard(func() error { return r.io.Stdout(f.Stdout) })
	case *pb.RunOut_Stderr:
		got.stderr += int64(len(f.Stderr))
		if err := r.output("stderr", got.stderr, r.spec.Limits.StderrBytes); err != nil {
			return false, err
		}
		r.heard(func() error { return r.io.Stderr(f.Stderr) })
	case *pb.RunOut_Call:
		return false, r.call(f.Call)
	case *pb.RunOut_Changed:
		for _, e := range f.Changed.GetEntries() {
			res.Changed = append(res.Changed, fromPBEntry(e))
		}
		res.Deleted = append(res.Deleted, fromBytes(f.Changed.GetDeleted())...)
		res.MissingInputs = append(res.MissingInputs, fromBytes(f.Changed.GetMissingInputs())...)
		got.changes += proto.Size(f.Changed)
		if len(res.Changed)+len(res.Deleted)+len(res.MissingInputs) > maxListed || got.changes > maxListedBytes {
			return false, violation(r.op, "more than %d changes or %d bytes of them", maxListed, maxListedBytes)
		}
	case *pb.RunOut_Usage:
		res.Usage = fromPBUsage(f.Usage)
	case *pb.RunOut_Exit:
		fromPBExit(f.Exit, res)
		switch {
		case r.detached:
			return false, violation(r.op, "a result of a run that goes on")
		case !got.started && !r.attached && res.Stop != StopCanceled:
			return false, violation(r.op, "a result without a start")
		case res.StdoutBytes < got.stdout || res.StderrBytes < got.stderr:
			return false, violation(r.op, "less output counted than sent")
		}
		slices.SortFunc(res.Changed, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
		return true, nil
	default:
		return false, violation(r.op, "an unknown frame")
	}
	return false, nil
}

// output checks that output may come now, and that much of it.
func (r *runCall) output(name string, total, limit int64) error {
	if !r.received.started && !r.attached {
		return violation(r.op, "%s before the start", name)
	}
	if limit == 0 {
		limit = maxKeptOutput
	}
	if total > limit {
		return violation(r.op, "more than %d bytes of %s", limit, name)
	}
	return nil
}

// heard calls RunIO unless it failed before. When it fails nobody listens any
// more: the program is stopped, and the result still received.
func (r *runCall) heard(call func() error) {
	if r.received.deaf {
		return
	}
	if err := call(); err != nil {
		r.received.deaf = true
		go r.stop() // may wait for a send; the receiver must not
	}
}

// call puts the frames of a call together and passes it on.
func (r *runCall) call(f *pb.ControlCall) error {
	switch {
	case !r.spec.Control:
		return violation(r.op, "a call that was not offered")
	case !r.received.started && !r.attached:
		return violation(r.op, "a call before the start")
	case f.GetId() == "":
		return violation(r.op, "a call without id")
	}
	if f.GetWithdrawn() {
		r.ioMu.Lock()
		defer r.ioMu.Unlock()
		r.callBytes -= len(r.callIn[f.GetId()].GetInput())
		delete(r.callIn, f.GetId())
		if cancel := r.withdraw[f.GetId()]; cancel != nil {
			cancel()
		}
		return nil // or it was answered meanwhile
	}
	c, ok := r.callIn[f.GetId()]
	if !ok {
		if len(r.callIn) >= maxOpenCalls {
			return violation(r.op, "too many unfinished calls")
		}
		c = &pb.ControlCall{Id: f.GetId(), Name: f.GetName()}
		r.callIn[f.GetId()] = c
	}
	c.Input = append(c.Input, f.GetInput()...)
	r.ioMu.Lock()
	r.callBytes += len(f.GetInput())
	if f.GetLast() {
		if r.open++; r.open == 1 && r.watchdog != nil {
			r.watchdog.Stand()
		}
	}
	tooMuch := r.open > maxOpenCalls || r.callBytes > maxCallBytes
	r.ioMu.Unlock()
	if tooMuch || len(c.GetInput()) > maxCall {
		return violation(r.op, "more open calls, or input of calls, than allowed")
	}
	if !f.GetLast() {
		return nil
	}
	delete(r.callIn, f.GetId())
	ctx, cancel := context.WithCancel(r.callCtx)
	r.ioMu.Lock()
	_, double := r.withdraw[c.GetId()]
	r.withdraw[c.GetId()] = cancel
	r.ioMu.Unlock()
	if double {
		cancel()
		return violation(r.op, "two open calls of one id")
	}
	r.calls.Add(1)
	go r.answer(ctx, cancel, ControlCall{ID: c.GetId(), Name: c.GetName(), Input: c.GetInput()})
	return nil
}
