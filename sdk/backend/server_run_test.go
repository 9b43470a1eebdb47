package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// funcBackend is a backend whose Run is a function of the test.
type funcBackend struct {
	Backend
	run func(ctx context.Context, spec RunSpec, live RunIO) (RunResult, error)
}

func (b *funcBackend) Info(context.Context) (Info, error) {
	return Info{Name: "func", Version: "1", Capabilities: []Capability{CapControl}}, nil
}

func (b *funcBackend) Run(ctx context.Context, spec RunSpec, live RunIO) (RunResult, error) {
	return b.run(ctx, spec, live)
}

func runFunc(t *testing.T, f func(ctx context.Context, spec RunSpec, live RunIO) (RunResult, error)) *client {
	return serveBackend(t, &funcBackend{run: f})
}

func finished(out int) RunResult { return RunResult{Stop: StopExit, StdoutBytes: int64(out)} }

// TestBackendsBugs: what an implementation does wrong it is told at once.
func TestBackendsBugs(t *testing.T) {
	for name, f := range map[string]func(context.Context, RunSpec, RunIO) (RunResult, error){
		"starts twice": func(_ context.Context, _ RunSpec, live RunIO) (RunResult, error) {
			if err := live.Started(); err != nil {
				return RunResult{}, err
			}
			return finished(0), live.Started()
		},
		"writes before the start": func(_ context.Context, _ RunSpec, live RunIO) (RunResult, error) {
			return finished(0), live.Stdout([]byte("x"))
		},
		"asks for no input": func(_ context.Context, _ RunSpec, live RunIO) (RunResult, error) {
			_, err := live.Input(0)
			return finished(0), err
		},
		"asks for an input beyond": func(_ context.Context, _ RunSpec, live RunIO) (RunResult, error) {
			_, err := live.Input(7)
			return finished(0), err
		},
		"calls unasked": func(ctx context.Context, _ RunSpec, live RunIO) (RunResult, error) {
			if err := live.Started(); err != nil {
				return RunResult{}, err
			}
			_, err := live.Call(ctx, ControlCall{ID: "1", Name: "f"})
			return finished(0), err
		},
		"panics": func(context.Context, RunSpec, RunIO) (RunResult, error) { panic("secret") },
	} {
		cl := runFunc(t, f)
		_, err := cl.Run(t.Context(), testSpec(), &listener{})
		if k := KindOf(err); err == nil || k != KindInternal && k != KindUnsupported || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := cl.Info(t.Context()); err != nil {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
}

// TestCancelPassesContent: cancelling works although nobody reads the content
// that the host would like to send.
func TestCancelPassesContent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sent atomic.Int64
	full := make(chan struct{})
	endless := readerFunc(func(p []byte) (int, error) {
		if n := sent.Add(int64(len(p))); n > window && n-int64(len(p)) <= window {
			close(full) // one more than fits
		}
		return len(p), nil
	})
	cl := runFunc(t, func(ctx context.Context, _ RunSpec, live RunIO) (RunResult, error) {
		if err := live.Started(); err != nil {
			return RunResult{}, err
		}
		<-ctx.Done()
		return RunResult{Stop: StopCanceled, ExitCode: -1}, nil
	})
	go func() {
		<-full
		cancel()
	}()
	spec := testSpec()
	spec.Stdin = true
	res, err := cl.Run(ctx, spec, &listener{stdin: endless})
	if err != nil || res.Stop != StopCanceled {
		t.Errorf("Run = %+v, %v", res, err)
	}
	if n := sent.Load(); n > window+2*chunkBytes {
		t.Errorf("%d bytes of stdin were read ahead", n)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestUnreadInputs: a backend that reads an input in part, or not at all, still
// gets the right ones after it.
func TestUnreadInputs(t *testing.T) {
	content := func(i int) string { return strings.Repeat(fmt.Sprint(i), 3<<20) }
	cl := runFunc(t, func(_ context.Context, _ RunSpec, live RunIO) (RunResult, error) {
		first, err := live.Input(1)
		if err != nil {
			return RunResult{}, err
		}
		if _, err := io.CopyN(io.Discard, first, 10); err != nil {
			return RunResult{}, err
		}
		last, err := live.Input(3)
		if err != nil {
			return RunResult{}, err
		}
		b, err := io.ReadAll(last)
		if err != nil || string(b) != content(3) {
			return RunResult{}, fmt.Errorf("%d bytes: %w", len(b), err)
		}
		return finished(0), live.Started()
	})
	spec := testSpec()
	l := &listener{inputs: map[int]io.Reader{}}
	for i := 1; i <= 3; i++ {
		spec.Inputs = append(spec.Inputs, Input{Path: fmt.Sprintf("/mnt/data/%d", i), Chunked: true})
		l.inputs[i] = strings.NewReader(content(i))
	}
	if res, err := cl.Run(t.Context(), spec, l); err != nil || res.Stop != StopExit {
		t.Errorf("Run = %+v, %v", res, err)
	}
}

// TestCalls: many at a time, large both ways, failing in each way.
func TestCalls(t *testing.T) {
	big := bytes.Repeat([]byte("1"), 9<<20)
	cl := runFunc(t, func(ctx context.Context, _ RunSpec, live RunIO) (RunResult, error) {
		if err := live.Started(); err != nil {
			return RunResult{}, err
		}
		var wg sync.WaitGroup
		errs := make(chan error, 30)
		for i := range 20 {
			wg.Go(func() {
				in := []byte(fmt.Sprint(i))
				if i == 0 {
					in = big
				}
				reply, err := live.Call(ctx, ControlCall{ID: fmt.Sprint(i), Name: "echo", Input: in})
				if err != nil || !bytes.Equal(reply.Result, in) {
					errs <- fmt.Errorf("call %d: %d bytes, %w", i, len(reply.Result), err)
				}
			})
		}
		wg.Go(func() {
			if reply, err := live.Call(ctx, ControlCall{ID: "e", Name: "error"}); err != nil || reply.Error != "no ü" {
				errs <- fmt.Errorf("error: %+v, %w", reply, err)
			}
		})
		wg.Go(func() {
			if _, err := live.Call(ctx, ControlCall{ID: "f", Name: "fail"}); err == nil {
				errs <- errors.New("a call that the host failed has an answer")
			}
		})
		wg.Wait()
		close(errs)
		return finished(0), errors.Join(<-errs)
	})
	spec := testSpec()
	spec.Control = true
	l := &listener{call: func(_ context.Context, c ControlCall) (ControlReply, error) {
		switch c.Name {
		case "error":
			return ControlReply{Error: "no ü"}, nil
		case "fail":
			return ControlReply{}, errors.New("host is closing")
		}
		return ControlReply{Result: c.Input}, nil
	}}
	if res, err := cl.Run(t.Context(), spec, l); err != nil {
		t.Errorf("Run = %+v, %v", res, err)
	}
}

// A call that waits ends with the run, on both sides.
func TestCallEndsWithTheCaller(t *testing.T) {
	cl := runFunc(t, func(ctx context.Context, _ RunSpec, live RunIO) (RunResult, error) {
		if err := live.Started(); err != nil {
			return RunResult{}, err
		}
		_, err := live.Call(ctx, ControlCall{ID: "1", Name: "wait"})
		if err == nil {
			return RunResult{}, errors.New("it has an answer")
		}
		return RunResult{Stop: StopCanceled, ExitCode: -1}, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	spec := testSpec()
	spec.Control = true
	res, err := cl.Run(ctx, spec, &listener{call: func(ctx context.Context, _ ControlCall) (ControlReply, error) {
		cancel()
		<-ctx.Done()
		return ControlReply{}, ctx.Err()
	}})
	if err != nil || res.Stop != StopCanceled {
		t.Errorf("Run = %+v, %v", res, err)
	}
}

// TestCallWithdrawn: a call that the program gives up ends at the host, and no other.
func TestCallWithdrawn(t *testing.T) {
	asked, gone := make(chan struct{}), make(chan struct{})
	cl := runFunc(t, func(ctx context.Context, _ RunSpec, live RunIO) (RunResult, error) {
		if err := live.Started(); err != nil {
			return RunResult{}, err
		}
		other := make(chan error, 1)
		go func() {
			reply, err := live.Call(ctx, ControlCall{ID: "2", Name: "other"})
			if err == nil && string(reply.Result) != "2" {
				err = fmt.Errorf("the other call got %q", reply.Result)
			}
			other <- err
		}()
		short, cancel := context.WithCancel(ctx)
		go func() {
			defer cancel()
			select {
			case <-asked:
			case <-ctx.Done():
			}
		}()
		if _, err := live.Call(short, ControlCall{ID: "3", Name: "withdrawn"}); !errors.Is(err, context.Canceled) {
			return RunResult{}, fmt.Errorf("a call that was given up: %w", err)
		}
		if err := <-other; err != nil {
			return RunResult{}, err
		}
		return RunResult{Stop: StopExit}, nil
	})
	spec := testSpec()
	spec.Control = true
	res, err := cl.Run(t.Context(), spec, &listener{call: func(ctx context.Context, c ControlCall) (ControlReply, error) {
		switch c.Name {
		case "withdrawn":
			close(asked)
			<-ctx.Done()
			close(gone)
			return ControlReply{}, ctx.Err()
		case "other":
			select {
			case <-gone: // the other one did not end with it
			case <-ctx.Done():
				return ControlReply{}, ctx.Err()
			}
		}
		return ControlReply{Result: []byte(c.ID)}, nil
	}})
	if err != nil || res.Stop != StopExit {
		t.Errorf("Run = %+v, %v", res, err)
	}
}

// TestWithdrawnCallsAreAwaited: a program that gives calls up makes the host work on no
// more of them than it waits for.
func TestWithdrawnCallsAreAwaited(t *testing.T) {
	cl := runFunc(t, func(ctx context.Context, _ RunSpec, live RunIO) (RunResult, error) {
		if err := live.Started(); err != nil {
			return RunResult{}, err
		}
		for i := range 10 {
			short, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Millisecond, cancel)
			if _, err := live.Call(short, ControlCall{ID: fmt.Sprint(i), Name: "slow"}); !errors.Is(err, context.Canceled) {
				return RunResult{}, fmt.Errorf("a call that was given up: %w", err)
			}
		}
		return finished(0), nil
	})
	spec := testSpec()
	spec.Control = true
	var open atomic.Int64
	res, err := cl.Run(t.Context(), spec, &listener{call: func(ctx context.Context, _ ControlCall) (ControlReply, error) {
		if n := open.Add(1); n > 1 {
			t.Errorf("%d calls are open", n)
		}
		defer open.Add(-1)
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond)
		return ControlReply{}, ctx.Err()
	}})
	if err != nil || res.Stop != StopExit {
		t.Errorf("Run = %+v, %v", res, err)
	}
}

// TestLyingHost: a plugin is not brought down by frames that may not come.
func TestLyingHost(t *testing.T) {
	cl := runFunc(t, func(ctx context.Context, _ RunSpec, _ RunIO) (RunResult, error) {
		<-ctx.Done()
		return RunResult{}, ctx.Err()
	})
	start := func(change func(*pb.RunStart)) *pb.RunIn {
		s := toPBStart(testSpec(), 0)
		if change != nil {
			change(s)
		}
		return &pb.RunIn{Frame: &pb.RunIn_Start{Start: s}}
	}
	program := &pb.RunIn{Frame: &pb.RunIn_Program{Program: &pb.ProgramChunk{Data: []byte("x"), Last: true}}}
	stdin := &pb.RunIn{Frame: &pb.RunIn_Stdin{Stdin: &pb.StdinChunk{Data: make([]byte, window)}}}
	for name, frames := range map[string][]*pb.RunIn{
		"no start":                {program},
		"an empty frame":          {{}},
		"two starts":              {start(nil), program, start(nil)},
		"no program":              {start(nil), stdin},
		"a bad spec":              {start(func(s *pb.RunStart) { s.Steps = nil }), program},
		"an input without source": {start(func(s *pb.RunStart) { s.Inputs = []*pb.Input{{Path: []byte("/mnt/data/x")}} }), program},
		"stdin beyond the credit": {start(func(s *pb.RunStart) { s.Stdin = true }), program, stdin, stdin},
		"inputs beyond the credit": {start(nil), program, {Frame: &pb.RunIn_Input{Input: &pb.InputChunk{Data: make([]byte, window)}}}, {
			Frame: &pb.RunIn_Input{Input: &pb.InputChunk{Data: make([]byte, window)}},
		}},
	} {
		stream, err := cl.pb.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			if stream.Send(f) != nil {
				break // it gave up already
			}
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if errors.Is(err, io.EOF) {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := cl.Info(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
