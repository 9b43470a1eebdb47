package backend

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// peer is a plugin that does on the wire whatever a test wants.
type peer struct {
	pb.UnimplementedBackendServer
	run func(stream runStream) error
}

func (p *peer) Run(stream runStream) error { return p.run(stream) }

// listener is a RunIO that keeps what comes.
type listener struct {
	mu      sync.Mutex
	starts  int
	stdout  bytes.Buffer
	inputs  map[int]io.Reader
	stdin   io.Reader
	started func() error
	output  func() error
	call    func(context.Context, ControlCall) (ControlReply, error)
}

func (l *listener) Input(i int) (io.Reader, error) {
	if r := l.inputs[i]; r != nil {
		return r, nil
	}
	return nil, errors.New("no such input")
}

func (l *listener) Stdin() io.Reader { return l.stdin }

func (l *listener) Started() error {
	l.mu.Lock()
	l.starts++
	l.mu.Unlock()
	if l.started != nil {
		return l.started()
	}
	return nil
}

func (l *listener) Stdout(p []byte) error {
	l.mu.Lock()
	l.stdout.Write(p)
	l.mu.Unlock()
	if l.output != nil {
		return l.output()
	}
	return nil
}

func (l *listener) Stderr([]byte) error { return nil }

func (l *listener) Call(ctx context.Context, c ControlCall) (ControlReply, error) {
	return l.call(ctx, c)
}

func testSpec() RunSpec {
	return RunSpec{
		Ref: Ref{Config: "c", ID: "s"}, RunID: "r",
		Program: Program{File: "main.py", Source: []byte("print(1)")},
		Steps:   []Step{{Name: "run", Argv: []string{"python", "{dir}/main.py"}}},
		Limits:  Limits{StdoutBytes: 100, StderrBytes: 100},
		Inputs:  []Input{{Path: "/mnt/data/opt", CopyFrom: &CopySource{ID: "o", Path: "/mnt/data/opt"}, Optional: true}},
		Collect: CollectSpec{MaxFiles: 2, MaxFileBytes: 1000},
	}
}

func outStarted() *pb.RunOut { return &pb.RunOut{Frame: &pb.RunOut_Started{Started: &pb.RunStarted{}}} }

func outStdout(n int) *pb.RunOut {
	return &pb.RunOut{Frame: &pb.RunOut_Stdout{Stdout: bytes.Repeat([]byte("x"), n)}}
}

func outExit(change func(*pb.RunExit)) *pb.RunOut {
	e := &pb.RunExit{Stop: pb.StopReason_STOP_REASON_EXIT}
	if change != nil {
		change(e)
	}
	return &pb.RunOut{Frame: &pb.RunOut_Exit{Exit: e}}
}

func outChanged(entries ...*pb.Entry) *pb.RunOut {
	return &pb.RunOut{Frame: &pb.RunOut_Changed{Changed: &pb.RunChanged{Entries: entries}}}
}

func file(path string) *pb.Entry {
	return &pb.Entry{Path: []byte(path), Type: pb.EntryType_ENTRY_TYPE_FILE, Size: 1, Sha256: strings.Repeat("a", 64)}
}

func changedFile(change func(*pb.Entry)) *pb.RunOut {
	f := file("/mnt/data/f")
	change(f)
	return outChanged(f)
}

// TestLyingPlugin: what a plugin says is checked before anybody believes it.
func TestLyingPlugin(t *testing.T) {
	usage := func(u *pb.Usage) *pb.RunOut { return &pb.RunOut{Frame: &pb.RunOut_Usage{Usage: u}} }
	call := &pb.RunOut{Frame: &pb.RunOut_Call{Call: &pb.ControlCall{Id: "1", Name: "f", Last: true}}}
	credit := func(in, stdin int64) *pb.RunOut {
		return &pb.RunOut{Frame: &pb.RunOut_Credit{Credit: &pb.Credit{InputBytes: in, StdinBytes: stdin}}}
	}
	for _, c := range []struct {
		name   string
		frames []*pb.RunOut
		want   string
	}{
		{"nothing at all", nil, "without a result"},
		{"no result", []*pb.RunOut{outStarted(), outStdout(1)}, "without a result"},
		{"a result without a start", []*pb.RunOut{outExit(nil)}, "without a start"},
		{"two starts", []*pb.RunOut{outStarted(), outStarted()}, "second start"},
		{"output before the start", []*pb.RunOut{outStdout(1)}, "stdout before the start"},
		{"errors before the start", []*pb.RunOut{{Frame: &pb.RunOut_Stderr{Stderr: []byte("x")}}}, "stderr before the start"},
		{"too much output", []*pb.RunOut{outStarted(), outStdout(60), outStdout(41)}, "more than 100 bytes of stdout"},
		{"a frame after the result", []*pb.RunOut{outStarted(), outExit(nil), outChanged(file("/mnt/data/f"))}, "after the result"},
		{"two results", []*pb.RunOut{outStarted(), outExit(nil), outExit(nil)}, "after the result"},
		{"an unknown frame", []*pb.RunOut{outStarted(), {}}, "unknown frame"},
		{"a call that was not offered", []*pb.RunOut{outStarted(), call}, "not offered"},
		{"credit that was not used", []*pb.RunOut{credit(1, 0)}, "credit beyond"},
		{"negative credit", []*pb.RunOut{credit(0, -1)}, "credit beyond"},
		{"an unknown stop reason", []*pb.RunOut{outStarted(), outExit(func(e *pb.RunExit) { e.Stop = 99 })}, "none of the seven"},
		{"no stop reason", []*pb.RunOut{outStarted(), outExit(func(e *pb.RunExit) { e.Stop = 0 })}, "none of the seven"},
		{"lost before the start", []*pb.RunOut{outExit(func(e *pb.RunExit) { e.Stop = pb.StopReason_STOP_REASON_LOST })}, "without a start"},
		{"a step that there is not", []*pb.RunOut{outStarted(), outExit(func(e *pb.RunExit) { e.Step = 1 })}, "step 1 of 1"},
		{"a negative count", []*pb.RunOut{outStarted(), outExit(func(e *pb.RunExit) { e.Skipped = -1 })}, "negative"},
		{"less output than sent", []*pb.RunOut{outStarted(), outStdout(5), outExit(nil)}, "less output"},
		{"negative usage", []*pb.RunOut{outStarted(), usage(&pb.Usage{Cpu: toPBDuration(-1)}), outExit(nil)}, "usage is negative"},
		{"a file elsewhere", []*pb.RunOut{outStarted(), outChanged(file("/etc/passwd")), outExit(nil)}, "not below /mnt/data"},
		{"a file above", []*pb.RunOut{outStarted(), outChanged(file("/mnt/data/../../etc/passwd")), outExit(nil)}, "not below /mnt/data"},
		{"a file beside", []*pb.RunOut{outStarted(), outChanged(file("/mnt/database")), outExit(nil)}, "not below /mnt/data"},
		{"a relative file", []*pb.RunOut{outStarted(), outChanged(file("f")), outExit(nil)}, "not below /mnt/data"},
		{"a file with NUL", []*pb.RunOut{outStarted(), outChanged(file("/mnt/data/a\x00b")), outExit(nil)}, "not below /mnt/data"},
		{"the root itself", []*pb.RunOut{outStarted(), outChanged(file("/mnt/data")), outExit(nil)}, "not below /mnt/data"},
		{"a file twice", []*pb.RunOut{outStarted(), outChanged(file("/mnt/data/f")), outChanged(file("/mnt/data/f")), outExit(nil)}, "doubled"},
		{"too many files", []*pb.RunOut{outStarted(), outChanged(file("/mnt/data/1"), file("/mnt/data/2"), file("/mnt/data/3")), outExit(nil)}, "more than asked for"},
		{"a link", []*pb.RunOut{outStarted(), changedFile(func(e *pb.Entry) { e.Type = pb.EntryType_ENTRY_TYPE_OTHER }), outExit(nil)}, "has type"},
		{"a negative size", []*pb.RunOut{outStarted(), changedFile(func(e *pb.Entry) { e.Size = -1 }), outExit(nil)}, "-1 bytes"},
		{"too large a file", []*pb.RunOut{outStarted(), changedFile(func(e *pb.Entry) { e.Size = 1001 }), outExit(nil)}, "1001 bytes"},
		{"no digest", []*pb.RunOut{outStarted(), changedFile(func(e *pb.Entry) { e.Sha256 = "" }), outExit(nil)}, "no digest"},
		{"a digest in capitals", []*pb.RunOut{outStarted(), changedFile(func(e *pb.Entry) { e.Sha256 = strings.Repeat("A", 64) }), outExit(nil)}, "no digest"},
		{"a deleted file elsewhere", []*pb.RunOut{outStarted(), {Frame: &pb.RunOut_Changed{Changed: &pb.RunChanged{Deleted: [][]byte{[]byte("/etc/passwd")}}}}, outExit(nil)}, "deleted file"},
		{"a missing input that is none", []*pb.RunOut{outStarted(), {Frame: &pb.RunOut_Changed{Changed: &pb.RunChanged{MissingInputs: [][]byte{[]byte("/mnt/data/x")}}}}, outExit(nil)}, "not an optional input"},
		{"changes that it could not find", []*pb.RunOut{outStarted(), outChanged(file("/mnt/data/f")), outExit(func(e *pb.RunExit) { e.CollectFailed = true })}, "none were collected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl, _ := servePeer(t, &peer{run: func(stream runStream) error {
				for _, f := range c.frames {
					if err := stream.Send(f); err != nil {
						return err
					}
				}
				return nil
			}})
			res, err := cl.Run(t.Context(), testSpec(), &listener{})
			if KindOf(err) != KindInternal || !strings.Contains(err.Error(), "protocol violation") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Run = %+v, %v, want a violation: %s", res, err, c.want)
			}
		})
	}
}

// A plugin that floods is cut off, not only complained about.
func TestViolationEndsTheStream(t *testing.T) {
	ended := make(chan struct{})
	cl, _ := servePeer(t, &peer{run: func(stream runStream) error {
		defer close(ended)
		err := stream.Send(outStarted())
		for err == nil {
			err = stream.Send(outStdout(1000))
		}
		return err
	}})
	if _, err := cl.Run(t.Context(), testSpec(), &listener{}); KindOf(err) != KindInternal {
		t.Errorf("err = %v", err)
	}
	<-ended
}

// A plugin that says its result and then nothing is not waited for.
func TestResultWithoutEnd(t *testing.T) {
	cl, _ := servePeer(t, &peer{run: func(stream runStream) error {
		for _, f := range []*pb.RunOut{outStarted(), outExit(func(e *pb.RunExit) { e.ExitCode = 3 })} {
			if err := stream.Send(f); err != nil {
				return err
			}
		}
		<-stream.Context().Done()
		return nil
	}})
	cl.grace = 50 * time.Millisecond
	res, err := cl.Run(t.Context(), testSpec(), &listener{})
	if err != nil || res.ExitCode != 3 {
		t.Errorf("Run = %+v, %v", res, err)
	}
}

// TestBrokenStream: before the start a run did not happen, after it it is lost.
func TestBrokenStream(t *testing.T) {
	for _, started := range []bool{false, true} {
		var stop func()
		var cl *client
		cl, stop = servePeer(t, &peer{run: func(stream runStream) error {
			if started {
				if err := stream.Send(outStarted()); err != nil {
					return err
				}
				if err := stream.Send(outStdout(5)); err != nil {
					return err
				}
			} else {
				go stop()
			}
			<-stream.Context().Done()
			return nil
		}})
		l := &listener{output: func() error { go stop(); return nil }}
		res, err := cl.Run(t.Context(), testSpec(), l)
		if !started {
			if KindOf(err) != KindUnavailable || ProvesGone(err) {
				t.Errorf("before the start: %+v, %v", res, err)
			}
			continue
		}
		if err != nil || res.Stop != StopLost || res.ExitCode != -1 || res.StdoutBytes != 5 || !res.CollectFailed || len(res.Changed) > 0 {
			t.Errorf("after the start: %+v, %v", res, err)
		}
	}
}

// TestRefusal: an error with detail is the plugin's own, at any point.
func TestRefusal(t *testing.T) {
	gone := toStatus(t.Context(), "Run", &Error{Kind: KindNotFound, Op: "Run", Subject: SubjectSandbox, Plane: PlaneControl})
	for name, c := range map[string]struct {
		frames []*pb.RunOut
		err    error
		kind   Kind
		proof  bool
	}{
		"before the start": {nil, gone, KindNotFound, true},
		"after the start":  {[]*pb.RunOut{outStarted()}, gone, KindNotFound, true},
		"without detail":   {nil, status.Error(codes.NotFound, "x"), KindUnavailable, false},
	} {
		cl, _ := servePeer(t, &peer{run: func(stream runStream) error {
			for _, f := range c.frames {
				if err := stream.Send(f); err != nil {
					return err
				}
			}
			return c.err
		}})
		_, err := cl.Run(t.Context(), testSpec(), &listener{})
		if KindOf(err) != c.kind || ProvesGone(err) != c.proof {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCancelSilentPlugin: whoever cancels is not kept by a plugin that does not
// answer.
func TestCancelSilentPlugin(t *testing.T) {
	for _, started := range []bool{false, true} {
		running := make(chan struct{})
		cl, _ := servePeer(t, &peer{run: func(stream runStream) error {
			if started {
				if err := stream.Send(outStarted()); err != nil {
					return err
				}
			} else {
				close(running)
			}
			<-stream.Context().Done()
			return nil
		}})
		cl.grace = 50 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		l := &listener{started: func() error { close(running); return nil }}
		go func() {
			<-running
			cancel()
		}()
		res, err := cl.Run(ctx, testSpec(), l)
		switch {
		case !started && !errors.Is(err, context.Canceled):
			t.Errorf("before the start: %+v, %v", res, err)
		case started && (err != nil || res.Stop != StopLost || !strings.Contains(res.Message, "did not report")):
			t.Errorf("after the start: %+v, %v", res, err)
		}
	}
}

// TestFrozenPlugin: a run ends some time after its wall limit even if the plugin
// has stopped for good and nobody cancels.
func TestFrozenPlugin(t *testing.T) {
	cl, _ := servePeer(t, &peer{run: func(stream runStream) error {
		if err := stream.Send(outStarted()); err != nil {
			return err
		}
		<-stream.Context().Done()
		return nil
	}})
	cl.grace, cl.overrun = 20*time.Millisecond, 20*time.Millisecond
	spec := testSpec()
	spec.Limits.Wall = time.Millisecond
	res, err := cl.Run(t.Context(), spec, &listener{})
	if err != nil || res.Stop != StopLost {
		t.Errorf("Run = %+v, %v", res, err)
	}
}

// TestWatchdogStandsStill: a run whose calls are open is not late, however long they
// are, and is again once they are answered.
func TestWatchdogStandsStill(t *testing.T) {
	cl, _ := servePeer(t, &peer{run: func(stream runStream) error {
		call := &pb.RunOut{Frame: &pb.RunOut_Call{Call: &pb.ControlCall{Id: "1", Name: "f", Input: []byte("1"), Last: true}}}
		for _, f := range []*pb.RunOut{outStarted(), call} {
			if err := stream.Send(f); err != nil {
				return err
			}
		}
		<-stream.Context().Done() // it never ends by itself
		return nil
	}})
	asked := false
	for late := 100 * time.Millisecond; !asked && late < time.Minute; late *= 2 { // on a busy machine the call may take longer to come
		cl.grace, cl.overrun = 20*time.Millisecond, late
		spec := testSpec()
		spec.Control, spec.Limits.Wall = true, time.Millisecond
		res, err := cl.Run(t.Context(), spec, &listener{call: func(ctx context.Context, _ ControlCall) (ControlReply, error) {
			asked = true
			select {
			case <-time.After(10 * late):
			case <-ctx.Done():
				t.Error("it was stopped while a call was open")
			}
			return ControlReply{Result: []byte("1")}, nil
		}})
		if err != nil || res.Stop != StopLost {
			t.Errorf("Run = %+v, %v", res, err)
		}
	}
	if !asked {
		t.Error("the call never came")
	}
}

// TestCancelDeliversTheResult: the plugin is told, and what it says counts.
func TestCancelDeliversTheResult(t *testing.T) {
	for name, leave := range map[string]func(*listener, func()){
		"caller":        func(l *listener, cancel func()) { l.output = func() error { cancel(); return nil } },
		"listener":      func(l *listener, _ func()) { l.output = func() error { return errors.New("gone") } },
		"at the start":  func(l *listener, _ func()) { l.started = func() error { return errors.New("gone") } },
		"start, caller": func(l *listener, cancel func()) { l.started = func() error { cancel(); return nil } },
	} {
		t.Run(name, func(t *testing.T) {
			cl, _ := servePeer(t, &peer{run: func(stream runStream) error {
				for _, f := range []*pb.RunOut{outStarted(), outStdout(1)} {
					if err := stream.Send(f); err != nil {
						return err
					}
				}
				for {
					in, err := stream.Recv()
					if err != nil {
						return err
					}
					if in.GetCancel() != nil {
						break
					}
				}
				for _, f := range []*pb.RunOut{outStdout(1), outChanged(file("/mnt/data/f")), outExit(func(e *pb.RunExit) {
					e.Stop, e.ExitCode, e.StdoutBytes = pb.StopReason_STOP_REASON_CANCELED, -1, 2
				})} {
					if err := stream.Send(f); err != nil {
						return err
					}
				}
				return nil
			}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := &listener{}
			leave(l, cancel)
			res, err := cl.Run(ctx, testSpec(), l)
			if err != nil || res.Stop != StopCanceled || len(res.Changed) != 1 {
				t.Errorf("Run = %+v, %v", res, err)
			}
			wantOutput := 2
			switch name {
			case "listener":
				wantOutput = 1 // what comes after the failure is not offered again
			case "at the start":
				wantOutput = 0
			}
			if l.stdout.Len() != wantOutput {
				t.Errorf("%d bytes of output were delivered, want %d", l.stdout.Len(), wantOutput)
			}
		})
	}
}

// TestConnectionRefused: nobody is there at all.
func TestConnectionRefused(t *testing.T) {
	cl, stop := servePeer(t, &peer{})
	stop()
	_, err := cl.Info(t.Context())
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != KindUnavailable || e.RetryAfter <= 0 || ProvesGone(err) {
		t.Errorf("Info: %v", err)
	}
	if _, err := cl.Run(t.Context(), testSpec(), &listener{}); KindOf(err) != KindUnavailable {
		t.Errorf("Run: %v", err)
	}
	if err := cl.Delete(t.Context(), Ref{Config: "c", ID: "s"}); KindOf(err) != KindUnavailable {
		t.Errorf("Delete: %v", err)
	}
}
