package backend

import (
	"context"
	"errors"
	"io"

	"google.golang.org/protobuf/proto"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

func (c *client) Walk(ctx context.Context, r WalkRequest) (WalkResult, error) {
	var res WalkResult
	entries, err := listing(ctx, "Walk", deadlineList, &pb.WalkRequest{
		Ref:            toPBRef(r.Ref),
		Root:           []byte(r.Root),
		MaxEntries:     int64(r.MaxEntries),
		MaxDepth:       int64(r.MaxDepth),
		Digests:        r.Digests,
		MaxDigestBytes: r.MaxDigestBytes,
		Exclude:        r.Exclude,
	}, c.pb.Walk, func(resp *pb.WalkResponse) []*pb.Entry {
		res.Truncated = resp.GetTruncated()
		return resp.GetEntries()
	}, fromPBEntry)
	if err != nil {
		return WalkResult{}, err
	}
	if r.MaxEntries > 0 && len(entries) > r.MaxEntries {
		return WalkResult{}, violation("Walk", "%d entries, more than asked for", len(entries))
	}
	root := r.Root
	if root == "" {
		root = DataDir
	}
	for _, e := range entries {
		if CheckPath(e.Path) != nil || e.Path == root || !Within(root, e.Path) || e.Size < 0 {
			return WalkResult{}, violation("Walk", "entry %q is not below %s", e.Path, root)
		}
	}
	res.Entries = entries
	return res, nil
}

func (c *client) ListDir(ctx context.Context, ref Ref, path string) ([]Entry, error) {
	const op = "ListDir"
	entries, err := listing(ctx, op, deadlineList,
		&pb.ListDirRequest{Ref: toPBRef(ref), Path: []byte(path)},
		c.pb.ListDir, (*pb.ListDirResponse).GetEntries, fromPBEntry)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if CheckPath(e.Path) != nil || e.Path == path || !Within(path, e.Path) || e.Size < 0 {
			return nil, violation(op, "entry %q is not in %s", e.Path, path)
		}
	}
	return entries, nil
}

func (c *client) Stat(ctx context.Context, ref Ref, path string) (Entry, error) {
	const op = "Stat"
	resp, err := unary(ctx, op, deadlineCall, &pb.StatRequest{Ref: toPBRef(ref), Path: []byte(path)}, c.pb.Stat)
	if err != nil {
		return Entry{}, err
	}
	return checkEntry(op, path, resp.GetEntry())
}

func checkEntry(op, path string, p *pb.Entry) (Entry, error) {
	e := fromPBEntry(p)
	if e.Path != path || e.Size < 0 {
		return Entry{}, violation(op, "an entry for another path than was asked for")
	}
	return e, nil
}

func (c *client) MakeDir(ctx context.Context, ref Ref, path string) error {
	_, err := unary(ctx, "MakeDir", deadlineCall, &pb.MakeDirRequest{Ref: toPBRef(ref), Path: []byte(path)}, c.pb.MakeDir)
	return err
}

func (c *client) Remove(ctx context.Context, ref Ref, path string) error {
	_, err := unary(ctx, "Remove", deadlineList, &pb.RemoveRequest{Ref: toPBRef(ref), Path: []byte(path)}, c.pb.Remove)
	return err
}

func (c *client) ReadFile(ctx context.Context, ref Ref, path string) (io.ReadCloser, Entry, error) {
	const op = "ReadFile"
	streamCtx, cancel := context.WithCancel(ctx)
	stream, err := c.pb.ReadFile(streamCtx, &pb.ReadFileRequest{Ref: toPBRef(ref), Path: []byte(path)})
	if err != nil {
		cancel()
		return nil, Entry{}, fromStatus(ctx, op, err)
	}
	first, err := stream.Recv()
	if err != nil {
		cancel()
		if errors.Is(err, io.EOF) {
			return nil, Entry{}, violation(op, "no entry")
		}
		return nil, Entry{}, fromStatus(ctx, op, err)
	}
	entry, err := checkEntry(op, path, first.GetEntry())
	if err != nil {
		cancel()
		return nil, Entry{}, err
	}
	return &fileReader{cancel: cancel, frameReader: frameReader{recv: func() ([]byte, error) {
		frame, err := stream.Recv()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fromStatus(ctx, op, err)
		}
		return frame.GetData(), err
	}}}, entry, nil
}

type fileReader struct {
	frameReader
	cancel context.CancelFunc
}

func (r *fileReader) Close() error {
	r.cancel()
	return nil
}

// sourceError is that of a reader that failed while it was sent.
type sourceError struct{ err error }

func (e sourceError) Error() string { return e.err.Error() }

func (c *client) WriteFile(ctx context.Context, ref Ref, path string, opts WriteOptions, r io.Reader) (Entry, error) {
	const op = "WriteFile"
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel() // anything but a half-closed stream leaves what was there
	stream, err := c.pb.WriteFile(streamCtx)
	if err != nil {
		return Entry{}, fromStatus(ctx, op, err)
	}
	err = stream.Send(&pb.WriteFileRequest{Frame: &pb.WriteFileRequest_Start{Start: &pb.WriteFileStart{
		Ref: toPBRef(ref), Path: []byte(path), Mode: opts.Mode, MaxBytes: opts.MaxBytes, Exclusive: opts.Exclusive,
	}}})
	sent := int64(0)
	if err == nil {
		err = sendContent(r, func(p []byte) error {
			sent += int64(len(p))
			return stream.Send(&pb.WriteFileRequest{Frame: &pb.WriteFileRequest_Data{Data: p}})
		})
	}
	var failed sourceError
	switch {
	case errors.As(err, &failed):
		return Entry{}, Errorf(KindInvalidRequest, op, "reading the content: %w", failed.err)
	case err != nil && !errors.Is(err, io.EOF): // io.EOF: the answer says why
		return Entry{}, fromStatus(ctx, op, err)
	}
	resp, err := stream.CloseAndRecv()
	if err != nil {
		return Entry{}, fromStatus(ctx, op, err)
	}
	e, err := checkEntry(op, path, resp.GetEntry())
	if err == nil && e.Size != sent {
		return Entry{}, violation(op, "a file of %d bytes was written, and %d were sent", e.Size, sent)
	}
	return e, err
}

// sendContent sends a reader to its end in frames; its own failure is a sourceError.
func sendContent(r io.Reader, send func([]byte) error) error {
	buf := make([]byte, chunkBytes)
	for {
		n, err := fill(r, buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF: // a wrapped EOF is no end of content
			return nil
		case err != nil:
			return sourceError{err}
		}
	}
}

// fill reads until buf is full or the reader ends. Unlike io.ReadFull it leaves
// the reader's error as it is: io.ErrUnexpectedEOF from a cut upload must not
// pass for a short last piece.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for idle := 0; n < len(buf) && err == nil; idle++ {
		var m int
		m, err = r.Read(buf[n:])
		if n += m; m > 0 {
			idle = 0
		} else if idle > 100 {
			err = io.ErrNoProgress
		}
	}
	return n, err
}

func (c *client) Exec(ctx context.Context, r ExecRequest) (ExecResult, error) {
	const op = "Exec"
	if err := r.Check(); err != nil {
		return ExecResult{}, err
	}
	deadline := deadlineExecDefault
	if r.Timeout > 0 {
		deadline = r.Timeout + deadlineExecSlack
	}
	streamCtx, cancel := withDefault(ctx, deadline)
	defer cancel()
	stream, err := c.pb.Exec(streamCtx)
	if err != nil {
		return ExecResult{}, fromStatus(ctx, op, err)
	}
	start := &pb.ExecRequest{Frame: &pb.ExecRequest_Start{Start: &pb.ExecStart{
		Ref:            toPBRef(r.Ref),
		Argv:           toBytes(r.Argv),
		Shell:          r.Shell,
		Dir:            []byte(r.Dir),
		Env:            toBytesMap(r.Env),
		User:           r.User,
		Timeout:        toPBDuration(r.Timeout),
		MaxOutputBytes: r.MaxOutputBytes,
	}}}
	if err := checkSize(op, start); err != nil {
		return ExecResult{}, err
	}
	err = stream.Send(start)
	for p := range chunks(r.Stdin) {
		if err != nil {
			break
		}
		err = stream.Send(&pb.ExecRequest{Frame: &pb.ExecRequest_Stdin{Stdin: p}})
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return ExecResult{}, fromStatus(ctx, op, err)
	}
	_ = stream.CloseSend() // a broken stream shows below

	limit := r.MaxOutputBytes
	if limit == 0 {
		limit = defaultExecOutput
	}
	var res ExecResult
	for {
		frame, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return ExecResult{}, violation(op, "no exit")
			}
			return ExecResult{}, fromStatus(ctx, op, err)
		}
		switch f := frame.GetFrame().(type) {
		case *pb.ExecResponse_Stdout:
			res.Stdout = append(res.Stdout, f.Stdout...)
		case *pb.ExecResponse_Stderr:
			res.Stderr = append(res.Stderr, f.Stderr...)
		case *pb.ExecResponse_Exit:
			res.Stop = stopEnum.word(f.Exit.GetStop(), "")
			if res.Stop == "" {
				return ExecResult{}, violation(op, "unknown stop reason")
			}
			res.ExitCode, res.Signal = int(f.Exit.GetExitCode()), errorText(f.Exit.GetSignal())
			res.StdoutTruncated, res.StderrTruncated = f.Exit.GetStdoutTruncated(), f.Exit.GetStderrTruncated()
			res.Wall = f.Exit.GetWall().AsDuration()
			return res, nil
		default:
			return ExecResult{}, violation(op, "unknown frame")
		}
		if int64(len(res.Stdout)) > limit || int64(len(res.Stderr)) > limit {
			return ExecResult{}, violation(op, "more output than asked for")
		}
	}
}

// checkSize refuses a header that no message can hold before anything is sent.
func checkSize(op string, m proto.Message) error {
	if n := proto.Size(m); n > maxMessage {
		return Errorf(KindInvalidRequest, op, "arguments and environment are %d bytes, more than %d", n, maxMessage)
	}
	return nil
}
