package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// sessionName is one that nobody has.
func sessionName(name string) string { return fmt.Sprintf("%s-%d", name, time.Now().UnixNano()) }

// live is the host's side of a run.
type live struct {
	mu             sync.Mutex
	started        int
	stdout, stderr bytes.Buffer
	onStdout       func(string)
}

func (l *live) Input(int) (io.Reader, error) { return nil, errors.New("no input") }
func (l *live) Stdin() io.Reader             { return strings.NewReader("") }

func (l *live) Started() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started++
	return nil
}

func (l *live) Stdout(p []byte) error {
	l.mu.Lock()
	l.stdout.Write(p)
	all := l.stdout.String()
	l.mu.Unlock()
	if l.onStdout != nil {
		l.onStdout(all)
	}
	return nil
}

func (l *live) Stderr(p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stderr.Write(p)
	return nil
}

func (l *live) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, errors.New("no calls")
}

// bash is a run of a script.
func bash(ref backend.Ref, script string) backend.RunSpec {
	return backend.RunSpec{
		Ref: ref, RunID: sessionName("run"),
		Program: backend.Program{File: "main.sh", Source: []byte(script)},
		Steps:   []backend.Step{{Name: "run", Argv: []string{"bash", "{dir}/main.sh"}}},
		Limits:  backend.Limits{Wall: time.Minute},
	}
}

func run(t testing.TB, b backend.Backend, spec backend.RunSpec) (backend.RunResult, *live) {
	t.Helper()
	l := &live{}
	res, err := b.Run(context.Background(), spec, l)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return res, l
}

func write(t testing.TB, b backend.Backend, ref backend.Ref, path, text string) {
	t.Helper()
	if _, err := b.WriteFile(t.Context(), ref, path, backend.WriteOptions{}, strings.NewReader(text)); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
}

func read(t testing.TB, b backend.Backend, ref backend.Ref, path string) string {
	t.Helper()
	r, _, err := b.ReadFile(t.Context(), ref, path)
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	return string(text)
}

// await waits until a condition holds.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within a minute", what)
		}
		time.Sleep(20 * time.Millisecond) // between two looks, not instead of one
	}
}

// wire is a way to the tests' engine that can be cut and mended: to the plugin that
// is an engine which stops and starts.
type wire struct {
	t    testing.TB
	path string

	mu    sync.Mutex
	lis   net.Listener
	conns map[net.Conn]bool
	tasks sync.WaitGroup
}

func newWire(t testing.TB) *wire {
	t.Helper()
	w := &wire{t: t, path: filepath.Join(shortDir(t), "e"), conns: make(map[net.Conn]bool)}
	w.mend()
	t.Cleanup(w.cut)
	return w
}

func (w *wire) host() string { return "unix://" + w.path }

func (w *wire) mend() {
	lis, err := net.Listen("unix", w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.lis = lis
	w.mu.Unlock()
	w.tasks.Go(func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", strings.TrimPrefix(testHost(), "unix://"))
			if err != nil {
				_ = in.Close()
				continue
			}
			w.mu.Lock()
			if w.lis != lis { // it was cut meanwhile
				w.mu.Unlock()
				_, _ = in.Close(), out.Close()
				return
			}
			w.conns[in], w.conns[out] = true, true
			w.mu.Unlock()
			for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
				w.tasks.Go(func() {
					_, _ = io.Copy(to, from)
					if half, ok := to.(interface{ CloseWrite() error }); ok {
						_ = half.CloseWrite()
					}
				})
			}
		}
	})
}

// cut ends all connections; no other comes about.
func (w *wire) cut() {
	w.mu.Lock()
	if w.lis != nil {
		_ = w.lis.Close()
		w.lis = nil
	}
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
	w.mu.Unlock()
	w.tasks.Wait()
}

func wantKind(t testing.TB, what string, err error, kind backend.Kind) {
	t.Helper()
	if err == nil || backend.KindOf(err) != kind {
		t.Errorf("%s: got %v, want kind %q", what, err, kind)
	}
}

func asError(err error, into **backend.Error) bool { return errors.As(err, into) }
