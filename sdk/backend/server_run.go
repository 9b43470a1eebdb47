package backend

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

type runStream = grpc.BidiStreamingServer[pb.RunIn, pb.RunOut]

func (s *server) Run(stream runStream) error {
	const op = "Run"
	first, err := stream.Recv()
	if err != nil {
		return toStatus(stream.Context(), op, err)
	}
	spec, err := receiveSpec(op, first, stream)
	if err != nil {
		return toStatus(stream.Context(), op, err)
	}
	io := newRunConn(stream, spec.RunSpec, op)
	defer io.close()
	res, err := s.b.Run(io.ctx, spec.RunSpec, io)
	return io.finish(res, err)
}

func (s *server) StartRun(stream runStream) error {
	const op = "StartRun"
	d, ok := Optional[DetachedRunner](s.b, s.info)
	if !ok {
		return unsupported(stream.Context(), op)
	}
	first, err := stream.Recv()
	if err != nil {
		return toStatus(stream.Context(), op, err)
	}
	spec, err := receiveSpec(op, first, stream)
	if err != nil {
		return toStatus(stream.Context(), op, err)
	}
	io := newRunConn(stream, spec.RunSpec, op)
	defer io.close()
	return toStatus(io.ctx, op, d.StartRun(io.ctx, spec, io))
}

func (s *server) AttachRun(stream runStream) error {
	const op = "AttachRun"
	d, ok := Optional[DetachedRunner](s.b, s.info)
	if !ok {
		return unsupported(stream.Context(), op)
	}
	first, err := stream.Recv()
	if err != nil {
		return toStatus(stream.Context(), op, err)
	}
	attach := first.GetAttach()
	if attach == nil {
		return toStatus(stream.Context(), op, Errorf(KindInvalidRequest, op, "the first frame is not an attach"))
	}
	io := newRunConn(stream, RunSpec{Control: true, Stdin: true}, op)
	defer io.close()
	io.attached = true
	res, err := d.AttachRun(io.ctx, fromPBRef(attach.GetRef()), attach.GetRunId(), io)
	return io.finish(res, err)
}

// receiveSpec reads what comes before the run can begin: the spec, the program
// and the inline inputs.
func receiveSpec(op string, first *pb.RunIn, stream runStream) (DetachedStart, error) {
	start := first.GetStart()
	if start == nil {
		return DetachedStart{}, Errorf(KindInvalidRequest, op, "the first frame is not a start")
	}
	spec := fromPBStart(start)
	total := 0
	// collect reads the chunks of one content.
	collect := func(what string, next func(*pb.RunIn) (data []byte, last, ok bool)) ([]byte, error) {
		content := []byte{}
		for {
			frame, err := stream.Recv()
			if err != nil {
				return nil, err
			}
			if frame.GetCancel() != nil {
				return nil, Errorf(KindUnavailable, op, "canceled before it began")
			}
			data, last, ok := next(frame)
			if !ok {
				return nil, Errorf(KindInvalidRequest, op, "a frame other than the content of %s", what)
			}
			if total += len(data); total > maxInline {
				return nil, Errorf(KindInvalidRequest, op, "program and inline inputs are larger than %d bytes", maxInline)
			}
			content = append(content, data...)
			if last {
				return content, nil
			}
		}
	}
	var err error
	spec.Program.Source, err = collect("the program", func(f *pb.RunIn) ([]byte, bool, bool) {
		p := f.GetProgram()
		return p.GetData(), p.GetLast(), p != nil
	})
	if err != nil {
		return spec, err
	}
	for i := range spec.Inputs {
		if spec.Inputs[i].Inline == nil {
			continue
		}
		spec.Inputs[i].Inline, err = collect(fmt.Sprintf("input %d", i), func(f *pb.RunIn) ([]byte, bool, bool) {
			p := f.GetInput()
			return p.GetData(), p.GetLast(), p != nil && int(p.GetIndex()) == i
		})
		if err != nil {
			return spec, err
		}
	}
	return spec, spec.Check()
}

// finish answers the last frames of a run. The run's own context has usually
// ended when it was cancelled; the stream's has not.
func (c *runConn) finish(res RunResult, err error) error {
	if err != nil {
		return toStatus(c.ctx, c.op, err)
	}
	if err := changedFrames(res, func(batch *pb.RunChanged) error {
		return c.send(&pb.RunOut{Frame: &pb.RunOut_Changed{Changed: batch}})
	}); err != nil {
		return err
	}
	if err := c.send(&pb.RunOut{Frame: &pb.RunOut_Usage{Usage: toPBUsage(res.Usage)}}); err != nil {
		return err
	}
	return c.send(&pb.RunOut{Frame: &pb.RunOut_Exit{Exit: toPBExit(res)}})
}

// receive reads frames until the stream ends. It never blocks on anything else.
func (c *runConn) receive() {
	defer close(c.received)
	for {
		frame, err := c.stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // content that is complete has ended by now
			} else {
				c.cancel()
			}
			c.inputs.finish(err)
			c.stdin.finish(err)
			return
		}
		if err := c.dispatch(frame); err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *runConn) dispatch(frame *pb.RunIn) error {
	switch f := frame.GetFrame().(type) {
	case *pb.RunIn_Input:
		return c.inputs.push(chunk{
			index: int(f.Input.GetIndex()), data: f.Input.GetData(), last: f.Input.GetLast(), err: textError(f.Input.GetError()),
		})
	case *pb.RunIn_Stdin:
		return c.stdin.push(chunk{data: f.Stdin.GetData(), last: f.Stdin.GetLast(), err: textError(f.Stdin.GetError())})
	case *pb.RunIn_Reply:
		return c.reply(f.Reply)
	case *pb.RunIn_Cancel:
		c.cancel()
		return nil
	default:
		return errors.New("a frame that may not come here")
	}
}

// fail ends a run whose host does not keep to the protocol.
func (c *runConn) fail(err error) {
	c.inputs.finish(err)
	c.stdin.finish(err)
	c.cancel()
}

func textError(s string) error {
	if s == "" {
		return nil
	}
	return errors.New(s)
}

func unsupported(ctx context.Context, op string) error {
	return toStatus(ctx, op, Errorf(KindUnsupported, op, "this backend cannot do that"))
}
