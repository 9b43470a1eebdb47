package generic_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// primitives are those of the reference backend, but for what a test replaces.
type primitives struct {
	*hostbackend.Backend
	execute func(context.Context, generic.Command, generic.Output) (generic.Result, error)
	walk    func(context.Context, backend.WalkRequest) (backend.WalkResult, error)
	removed []string
}

func (p *primitives) Execute(ctx context.Context, c generic.Command, out generic.Output) (generic.Result, error) {
	return p.execute(ctx, c, out)
}

func (p *primitives) Walk(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
	return p.walk(ctx, r)
}

func (p *primitives) Remove(ctx context.Context, ref backend.Ref, path string) error {
	p.removed = append(p.removed, path)
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.Backend.Remove(ctx, ref, path)
}

func setUp(t *testing.T) (*primitives, backend.RunSpec) {
	t.Helper()
	b := hostbackend.New(t.TempDir())
	t.Cleanup(func() { _ = b.Close() })
	if err := b.OpenConfig(t.Context(), "c", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	sb, err := b.Create(t.Context(), backend.CreateSpec{Config: "c", Session: "s", Metadata: backend.Metadata{Session: "s"}})
	if err != nil {
		t.Fatal(err)
	}
	return &primitives{Backend: b, execute: b.Execute, walk: b.Walk}, backend.RunSpec{
		Ref: sb.Ref, RunID: "run/../1",
		Program: backend.Program{File: "main.sh", Source: []byte("echo hello")},
		Steps:   []backend.Step{{Name: "run", Argv: []string{"sh", "{dir}/main.sh"}}},
	}
}

// listener keeps what a run tells.
type listener struct {
	starts int
	stdout bytes.Buffer
}

func (l *listener) Input(int) (io.Reader, error) { return nil, errors.New("no input") }
func (l *listener) Stdin() io.Reader             { return nil }
func (l *listener) Started() error               { l.starts++; return nil }
func (l *listener) Stdout(p []byte) error        { l.stdout.Write(p); return nil }
func (l *listener) Stderr([]byte) error          { return nil }
func (l *listener) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, errors.New("no calls")
}

func TestRun(t *testing.T) {
	p, spec := setUp(t)
	l := &listener{}
	res, err := generic.New(p, generic.Options{}).Run(t.Context(), spec, l)
	if err != nil || res.Stop != backend.StopExit || res.ExitCode != 0 || l.stdout.String() != "hello\n" || l.starts != 1 {
		t.Errorf("Run = %+v, %v; stdout %q, %d starts", res, err, l.stdout.String(), l.starts)
	}
	dir := p.removed[len(p.removed)-1]
	if !strings.HasPrefix(dir, "/run/caisson/") || strings.Count(dir, "/") != 3 {
		t.Errorf("the program was in %q", dir)
	}
	if _, err := p.Stat(t.Context(), spec.Ref, dir); !backend.IsNotFound(err) {
		t.Errorf("the program is still there: %v", err)
	}
}

// TestBrokenExecute: an error before the start is one of the run; after it, it
// is a result.
func TestBrokenExecute(t *testing.T) {
	broken := backend.Errorf(backend.KindUnavailable, "Run", "the engine is gone")
	for _, c := range []struct {
		name    string
		execute func(ctx context.Context, cancel func(), out generic.Output) (generic.Result, error)
		err     error
		stop    backend.StopReason
	}{
		{"before the start", func(context.Context, func(), generic.Output) (generic.Result, error) {
			return generic.Result{}, broken
		}, broken, ""},
		{"after the start", func(_ context.Context, _ func(), out generic.Output) (generic.Result, error) {
			return generic.Result{}, errors.Join(out.Started(), broken)
		}, nil, backend.StopLost},
		{"cancelled", func(ctx context.Context, cancel func(), out generic.Output) (generic.Result, error) {
			err := out.Started()
			cancel()
			<-ctx.Done()
			return generic.Result{}, errors.Join(err, ctx.Err())
		}, nil, backend.StopCanceled},
		{"out of time", func(ctx context.Context, _ func(), out generic.Output) (generic.Result, error) {
			err := out.Started()
			<-ctx.Done()
			return generic.Result{}, errors.Join(err, ctx.Err())
		}, nil, backend.StopTimeout},
		{"out of time, in order", func(ctx context.Context, _ func(), out generic.Output) (generic.Result, error) {
			err := out.Started()
			<-ctx.Done()
			return generic.Result{Stop: backend.StopCanceled, ExitCode: 9}, err
		}, nil, backend.StopTimeout},
		{"without a word", func(context.Context, func(), generic.Output) (generic.Result, error) {
			return generic.Result{Stop: backend.StopExit}, nil
		}, nil, backend.StopExit},
		{"output first", func(_ context.Context, _ func(), out generic.Output) (generic.Result, error) {
			return generic.Result{Stop: backend.StopExit}, out.Stdout([]byte("x"))
		}, nil, backend.StopExit},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, spec := setUp(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p.execute = func(ctx context.Context, _ generic.Command, out generic.Output) (generic.Result, error) {
				return c.execute(ctx, cancel, out)
			}
			spec.Limits.Wall = 300 * time.Millisecond
			l := &listener{}
			res, err := generic.New(p, generic.Options{}).Run(ctx, spec, l)
			if !errors.Is(err, c.err) || res.Stop != c.stop {
				t.Errorf("Run = %+v, %v, want stop %q, %v", res, err, c.stop, c.err)
			}
			if c.err == nil && (l.starts != 1 || c.stop != backend.StopExit && res.ExitCode != -1 || res.CollectFailed) {
				t.Errorf("%d starts, result %+v", l.starts, res)
			}
			if dir := p.removed[len(p.removed)-1]; !strings.HasPrefix(dir, "/run/caisson/") {
				t.Errorf("the program was not removed, last was %q", dir)
			}
		})
	}
}

// TestFailedInspection: not knowing what changed is not the same as no change.
func TestFailedInspection(t *testing.T) {
	for name, walk := range map[string]func(n int, res backend.WalkResult) (backend.WalkResult, error){
		"before": func(n int, res backend.WalkResult) (backend.WalkResult, error) {
			if n == 1 {
				return backend.WalkResult{}, errors.New("too busy")
			}
			return res, nil
		},
		"after": func(n int, res backend.WalkResult) (backend.WalkResult, error) {
			if n == 2 {
				return backend.WalkResult{}, errors.New("too busy")
			}
			return res, nil
		},
		"cut": func(_ int, res backend.WalkResult) (backend.WalkResult, error) {
			res.Truncated = true
			return res, nil
		},
	} {
		p, spec := setUp(t)
		spec.Program.Source = []byte("echo x >made")
		n := 0
		p.walk = func(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
			n++
			res, err := p.Backend.Walk(ctx, r)
			if err != nil {
				return res, err
			}
			return walk(n, res)
		}
		res, err := generic.New(p, generic.Options{}).Run(t.Context(), spec, &listener{})
		if err != nil || !res.CollectFailed || len(res.Changed)+len(res.Deleted) > 0 || res.Stop != backend.StopExit {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
}

// TestWaiting: runs of one sandbox take turns, and the queue is bounded.
func TestWaiting(t *testing.T) { synctest.Test(t, testWaiting) }

func testWaiting(t *testing.T) {
	p, spec := setUp(t)
	running, release := make(chan struct{}, 10), make(chan struct{})
	p.execute = func(_ context.Context, _ generic.Command, out generic.Output) (generic.Result, error) {
		running <- struct{}{}
		<-release
		return generic.Result{Stop: backend.StopExit}, out.Started()
	}
	r := generic.New(p, generic.Options{Waiting: 1})
	run := func(ctx context.Context, id string) error {
		s := spec
		s.RunID = id
		_, err := r.Run(ctx, s, &listener{})
		return err
	}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- run(t.Context(), "a") }()
	<-running
	ctx, cancel := context.WithCancel(t.Context())
	go func() { second <- run(ctx, "b") }()
	synctest.Wait() // the second is in the queue now
	if err := run(t.Context(), "c"); backend.KindOf(err) != backend.KindCapacity {
		t.Errorf("a third run: %v", err)
	}
	cancel() // whoever waits may leave
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("a run that waited: %v", err)
	}
	if len(running) > 0 {
		t.Error("two runs of one sandbox at a time")
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := run(t.Context(), "d"); err != nil {
		t.Errorf("after that: %v", err)
	}
}

func TestControlIsUnsupported(t *testing.T) {
	p, spec := setUp(t)
	spec.Control = true
	// Primitives alone are no Controller.
	only := struct{ generic.Primitives }{p}
	if _, err := generic.New(only, generic.Options{}).Run(t.Context(), spec, &listener{}); backend.KindOf(err) != backend.KindUnsupported {
		t.Errorf("err = %v", err)
	}
}
