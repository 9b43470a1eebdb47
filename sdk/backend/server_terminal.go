package backend

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

func (s *server) OpenTerminal(stream grpc.BidiStreamingServer[pb.TerminalIn, pb.TerminalOut]) error {
	const op = "OpenTerminal"
	ctx := stream.Context()
	o, ok := Optional[TerminalOpener](s.b, s.info)
	if !ok {
		return unsupported(ctx, op)
	}
	first, err := stream.Recv()
	if err != nil {
		return toStatus(ctx, op, err)
	}
	open := first.GetOpen()
	if open == nil {
		return toStatus(ctx, op, Errorf(KindInvalidRequest, op, "the first frame is not an open"))
	}
	term, err := o.OpenTerminal(ctx, TerminalSpec{
		Ref:  fromPBRef(open.GetRef()),
		PID:  int(open.GetPid()),
		Argv: fromBytes(open.GetArgv()),
		Dir:  string(open.GetDir()),
		User: open.GetUser(),
		Env:  fromBytesMap(open.GetEnv()),
		Cols: int(open.GetCols()),
		Rows: int(open.GetRows()),
	})
	if err != nil {
		return toStatus(ctx, op, err)
	}
	closeTerm := sync.OnceFunc(func() { _ = term.Close() })
	defer closeTerm()
	defer context.AfterFunc(ctx, closeTerm)() // releases the Read below

	var sendMu sync.Mutex
	send := func(f *pb.TerminalOut) error {
		sendMu.Lock()
		defer sendMu.Unlock()
		return stream.Send(f)
	}
	if err := send(&pb.TerminalOut{Frame: &pb.TerminalOut_Opened{Opened: &pb.TerminalOpened{Pid: int64(term.PID())}}}); err != nil {
		return err
	}
	// Input ends with the stream, which ends with this handler.
	go func() {
		var err error
		defer closeTerm() // nobody types any more
		defer s.catch(ctx, op, &err)
		err = terminalInput(stream, term, send)
	}()
	err = pump(term, func(p []byte) error {
		return send(&pb.TerminalOut{Frame: &pb.TerminalOut_Data{Data: p}})
	})
	if err != nil {
		return toStatus(ctx, op, err)
	}
	code, known := term.Exit()
	return send(&pb.TerminalOut{Frame: &pb.TerminalOut_Exit{Exit: &pb.TerminalExit{Known: known, Code: int64(code)}}})
}

func terminalInput(
	stream grpc.BidiStreamingServer[pb.TerminalIn, pb.TerminalOut], term Terminal, send func(*pb.TerminalOut) error,
) error {
	for {
		frame, err := stream.Recv()
		if err != nil {
			return err
		}
		switch f := frame.GetFrame().(type) {
		case *pb.TerminalIn_Data:
			if _, err := term.Write(f.Data); err != nil {
				return err
			}
		case *pb.TerminalIn_Resize:
			reply := &pb.TerminalResized{Seq: f.Resize.GetSeq()}
			if err := term.Resize(stream.Context(), int(f.Resize.GetCols()), int(f.Resize.GetRows())); err != nil {
				reply.Error = toPBError("Resize", err)
			}
			if err := send(&pb.TerminalOut{Frame: &pb.TerminalOut_Resized{Resized: reply}}); err != nil {
				return err
			}
		default:
			return errors.New("a frame that may not come here")
		}
	}
}

// pump sends what it reads as it comes; the end of r is nil.
func pump(r io.Reader, send func([]byte) error) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (s *server) DialPort(stream grpc.BidiStreamingServer[pb.DialPortRequest, pb.DialPortResponse]) error {
	const op = "DialPort"
	ctx := stream.Context()
	d, ok := Optional[PortDialer](s.b, s.info)
	if !ok {
		return unsupported(ctx, op)
	}
	first, err := stream.Recv()
	if err != nil {
		return toStatus(ctx, op, err)
	}
	open := first.GetOpen()
	if open == nil {
		return toStatus(ctx, op, Errorf(KindInvalidRequest, op, "the first frame is not an open"))
	}
	conn, err := d.DialPort(ctx, fromPBRef(open.GetRef()), int(open.GetPort()))
	if err != nil {
		return toStatus(ctx, op, err)
	}
	closeConn := sync.OnceFunc(func() { _ = conn.Close() })
	defer closeConn()
	defer context.AfterFunc(ctx, closeConn)() // releases the Read below
	if err := stream.Send(&pb.DialPortResponse{Frame: &pb.DialPortResponse_Opened{Opened: &pb.DialPortOpened{}}}); err != nil {
		return err
	}
	go func() {
		var err error
		defer s.catch(ctx, op, &err)
		for {
			frame, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				// The host sends no more but still reads.
				if w, ok := conn.(interface{ CloseWrite() error }); ok {
					_ = w.CloseWrite()
				}
				return
			}
			if err == nil {
				_, err = conn.Write(frame.GetData())
			}
			if err != nil {
				closeConn()
				return
			}
		}
	}()
	return toStatus(ctx, op, pump(conn, func(p []byte) error {
		return stream.Send(&pb.DialPortResponse{Frame: &pb.DialPortResponse_Data{Data: p}})
	}))
}
