package backend

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

func (s *server) Walk(r *pb.WalkRequest, stream grpc.ServerStreamingServer[pb.WalkResponse]) error {
	ctx := stream.Context()
	res, err := s.b.Walk(ctx, WalkRequest{
		Ref:            fromPBRef(r.GetRef()),
		Root:           string(r.GetRoot()),
		MaxEntries:     int(r.GetMaxEntries()),
		MaxDepth:       int(r.GetMaxDepth()),
		Digests:        r.GetDigests(),
		MaxDigestBytes: r.GetMaxDigestBytes(),
		Exclude:        r.GetExclude(),
	})
	if err != nil {
		return toStatus(ctx, "Walk", err)
	}
	if err := sendBatches(res.Entries, toPBEntry, entrySize, func(batch []*pb.Entry) error {
		return stream.Send(&pb.WalkResponse{Entries: batch})
	}); err != nil {
		return err
	}
	return stream.Send(&pb.WalkResponse{Truncated: res.Truncated})
}

func (s *server) ListDir(r *pb.ListDirRequest, stream grpc.ServerStreamingServer[pb.ListDirResponse]) error {
	ctx := stream.Context()
	entries, err := s.b.ListDir(ctx, fromPBRef(r.GetRef()), string(r.GetPath()))
	if err != nil {
		return toStatus(ctx, "ListDir", err)
	}
	return sendBatches(entries, toPBEntry, entrySize, func(batch []*pb.Entry) error {
		return stream.Send(&pb.ListDirResponse{Entries: batch})
	})
}

func entrySize(e Entry) int { return entryOverhead + len(e.Path) }

func (s *server) ReadFile(r *pb.ReadFileRequest, stream grpc.ServerStreamingServer[pb.ReadFileResponse]) error {
	ctx := stream.Context()
	content, entry, err := s.b.ReadFile(ctx, fromPBRef(r.GetRef()), string(r.GetPath()))
	if err != nil {
		return toStatus(ctx, "ReadFile", err)
	}
	defer func() { _ = content.Close() }()
	if err := stream.Send(&pb.ReadFileResponse{Frame: &pb.ReadFileResponse_Entry{Entry: toPBEntry(entry)}}); err != nil {
		return err
	}
	err = sendContent(content, func(p []byte) error {
		return stream.Send(&pb.ReadFileResponse{Frame: &pb.ReadFileResponse_Data{Data: p}})
	})
	var failed sourceError
	if errors.As(err, &failed) {
		return toStatus(ctx, "ReadFile", failed.err)
	}
	return err
}

func (s *server) WriteFile(stream grpc.ClientStreamingServer[pb.WriteFileRequest, pb.WriteFileResponse]) error {
	const op = "WriteFile"
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return toStatus(ctx, op, err)
	}
	start := first.GetStart()
	if start == nil {
		return toStatus(ctx, op, Errorf(KindInvalidRequest, op, "the first frame is not a start"))
	}
	entry, err := s.b.WriteFile(ctx, fromPBRef(start.GetRef()), string(start.GetPath()), WriteOptions{
		Mode: start.GetMode(), MaxBytes: start.GetMaxBytes(), Exclusive: start.GetExclusive(),
	}, &frameReader{recv: func() ([]byte, error) {
		frame, err := stream.Recv()
		return frame.GetData(), err
	}})
	if err != nil {
		return toStatus(ctx, op, err)
	}
	return stream.SendAndClose(&pb.WriteFileResponse{Entry: toPBEntry(entry)})
}

// frameReader reads the data frames of a stream. Only a half-closed stream is
// io.EOF: any other end must not look like the end of the content.
type frameReader struct {
	recv func() ([]byte, error)
	cur  []byte
	err  error
}

func (r *frameReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.cur) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		data, err := r.recv()
		if err != nil && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("content ended early: %w", err)
		}
		r.cur, r.err = data, err
	}
	n := copy(p, r.cur)
	r.cur = r.cur[n:]
	return n, nil
}

func (s *server) Stat(ctx context.Context, r *pb.StatRequest) (*pb.StatResponse, error) {
	e, err := s.b.Stat(ctx, fromPBRef(r.GetRef()), string(r.GetPath()))
	return &pb.StatResponse{Entry: toPBEntry(e)}, toStatus(ctx, "Stat", err)
}

func (s *server) MakeDir(ctx context.Context, r *pb.MakeDirRequest) (*pb.MakeDirResponse, error) {
	err := s.b.MakeDir(ctx, fromPBRef(r.GetRef()), string(r.GetPath()))
	return &pb.MakeDirResponse{}, toStatus(ctx, "MakeDir", err)
}

func (s *server) Remove(ctx context.Context, r *pb.RemoveRequest) (*pb.RemoveResponse, error) {
	err := s.b.Remove(ctx, fromPBRef(r.GetRef()), string(r.GetPath()))
	return &pb.RemoveResponse{}, toStatus(ctx, "Remove", err)
}

func (s *server) Exec(stream grpc.BidiStreamingServer[pb.ExecRequest, pb.ExecResponse]) error {
	const op = "Exec"
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return toStatus(ctx, op, err)
	}
	start := first.GetStart()
	if start == nil {
		return toStatus(ctx, op, Errorf(KindInvalidRequest, op, "the first frame is not a start"))
	}
	req := ExecRequest{
		Ref:            fromPBRef(start.GetRef()),
		Argv:           fromBytes(start.GetArgv()),
		Shell:          start.GetShell(),
		Dir:            string(start.GetDir()),
		Env:            fromBytesMap(start.GetEnv()),
		User:           start.GetUser(),
		Timeout:        start.GetTimeout().AsDuration(),
		MaxOutputBytes: start.GetMaxOutputBytes(),
	}
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return toStatus(ctx, op, err)
		}
		if req.Stdin = append(req.Stdin, frame.GetStdin()...); len(req.Stdin) > maxInline {
			return toStatus(ctx, op, Errorf(KindInvalidRequest, op, "stdin is larger than %d bytes", maxInline))
		}
	}
	if err := req.Check(); err != nil {
		return toStatus(ctx, op, err)
	}
	res, err := s.b.Exec(ctx, req)
	if err != nil {
		return toStatus(ctx, op, err)
	}
	for p := range chunks(res.Stdout) {
		if err := stream.Send(&pb.ExecResponse{Frame: &pb.ExecResponse_Stdout{Stdout: p}}); err != nil {
			return err
		}
	}
	for p := range chunks(res.Stderr) {
		if err := stream.Send(&pb.ExecResponse{Frame: &pb.ExecResponse_Stderr{Stderr: p}}); err != nil {
			return err
		}
	}
	return stream.Send(&pb.ExecResponse{Frame: &pb.ExecResponse_Exit{Exit: &pb.ExecExit{
		Stop:            stopEnum.numberOr(res.Stop, pb.StopReason_STOP_REASON_UNSPECIFIED),
		ExitCode:        int64(res.ExitCode),
		Signal:          text(res.Signal),
		StdoutTruncated: res.StdoutTruncated,
		StderrTruncated: res.StderrTruncated,
		Wall:            toPBDuration(res.Wall),
	}}})
}
