package backendtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/sdk/backend"
)

// RunFaults puts one fault after the other between a backend and its host, over the
// wire, and checks that the host's client stays safe: that every call returns in
// time, with an error that tells what was wrong and proves nothing, and that the
// next call works. Faults are a backend that hangs, lies about sizes, floods, panics,
// or answers about another sandbox, session or run than it was asked for.
//
// It is for those who change the wire, or decorate backends between plugin and host:
// decorate, if set, is put around the client. Of h, New, Patience and Skip are used;
// the names of Skip are those of the faults.
func RunFaults(t *testing.T, h Harness, decorate func(backend.Backend) backend.Backend) {
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	before := goleak.IgnoreCurrent()
	stale := make(map[string]bool)
	for name := range h.Skip {
		stale[name] = true
	}
	t.Run("faults", func(t *testing.T) {
		b, config := h.New(t)
		for _, f := range faults {
			delete(stale, f.name)
			t.Run(f.name, func(t *testing.T) {
				if why := h.Skip[f.name]; why != "" {
					t.Skip(why)
				}
				meet(t, h, f, b, config, decorate)
			})
		}
	})
	for name := range stale {
		t.Errorf("Skip names %q, which is no fault of this kit", name)
	}
	if err := goleak.Find(before); err != nil {
		t.Errorf("goroutines are left: %v", err)
	}
}

// fault is one way to be wrong.
type fault struct {
	name string
	// spoil makes a backend wrong, ask meets it.
	spoil func(f *faulty)
	ask   func(ctx context.Context, k *kit, ref backend.Ref) error
	// kind is that of the error; canceled says that it is the caller's own instead,
	// who leaves after a moment.
	kind     backend.Kind
	canceled bool
}

// meet asks a spoilt backend, and then whether it still answers.
func meet(t *testing.T, h Harness, f fault, b backend.Backend, config json.RawMessage, decorate func(backend.Backend) backend.Backend) {
	bad := &faulty{Backend: b, over: make(chan struct{})}
	f.spoil(bad)
	client := OverWire(t, bad)
	t.Cleanup(func() { close(bad.over) })
	if decorate != nil {
		client = decorate(client)
	}
	k := &kit{Harness: h, b: client, config: config, configID: "faults"}
	if err := client.OpenConfig(t.Context(), k.configID, config); err != nil {
		t.Fatalf("OpenConfig: %v", err)
	}
	spec := k.createSpec()
	ref := backend.Ref{Config: k.configID, ID: spec.Session}
	if sb, err := b.Create(t.Context(), spec); err == nil { // not through the fault
		ref = sb.Ref
		t.Cleanup(func() { _ = b.Delete(context.Background(), sb.Ref) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if f.canceled {
		timer := time.AfterFunc(100*time.Millisecond, cancel)
		defer timer.Stop()
	}
	var err error
	k.within(t, f.name, func() { err = f.ask(ctx, k, ref) })
	switch {
	case err == nil:
		t.Error("the host's client took it for an answer")
	case backend.ProvesGone(err):
		t.Errorf("the error claims that the sandbox is gone: %v", err)
	case len(err.Error()) > 64<<10:
		t.Errorf("the error has %d bytes", len(err.Error()))
	case f.canceled && !errors.Is(err, context.Canceled):
		t.Errorf("%v, want the caller's own end", err)
	case !f.canceled && backend.KindOf(err) != f.kind:
		t.Errorf("kind %q (%v), want %q", backend.KindOf(err), err, f.kind)
	}
	if _, err := client.Info(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// faulty is a backend of which a fault replaces some methods. It declares nothing
// beyond the core.
type faulty struct {
	backend.Backend
	over chan struct{} // closed when the host has given up

	run    func(context.Context, backend.RunSpec, backend.RunIO) (backend.RunResult, error)
	exec   func(context.Context, backend.ExecRequest) (backend.ExecResult, error)
	create func(context.Context, backend.CreateSpec) (backend.Sandbox, error)
	get    func(context.Context, backend.Ref) (backend.Sandbox, error)
	walk   func(context.Context, backend.WalkRequest) (backend.WalkResult, error)
	stat   func(context.Context, backend.Ref, string) (backend.Entry, error)
	read   func(context.Context, backend.Ref, string) (io.ReadCloser, backend.Entry, error)
	write  func(context.Context, backend.Ref, string, backend.WriteOptions, io.Reader) (backend.Entry, error)
}

func (f *faulty) Info(ctx context.Context) (backend.Info, error) {
	i, err := f.Backend.Info(ctx)
	i.Capabilities = nil
	return i, err
}

func (f *faulty) Run(ctx context.Context, s backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	if f.run != nil {
		return f.run(ctx, s, live)
	}
	return f.Backend.Run(ctx, s, live)
}

func (f *faulty) Exec(ctx context.Context, r backend.ExecRequest) (backend.ExecResult, error) {
	if f.exec != nil {
		return f.exec(ctx, r)
	}
	return f.Backend.Exec(ctx, r)
}

func (f *faulty) Create(ctx context.Context, s backend.CreateSpec) (backend.Sandbox, error) {
	if f.create != nil {
		return f.create(ctx, s)
	}
	return f.Backend.Create(ctx, s)
}

func (f *faulty) Get(ctx context.Context, r backend.Ref) (backend.Sandbox, error) {
	if f.get != nil {
		return f.get(ctx, r)
	}
	return f.Backend.Get(ctx, r)
}

func (f *faulty) Walk(ctx context.Context, r backend.WalkRequest) (backend.WalkResult, error) {
	if f.walk != nil {
		return f.walk(ctx, r)
	}
	return f.Backend.Walk(ctx, r)
}

func (f *faulty) Stat(ctx context.Context, r backend.Ref, p string) (backend.Entry, error) {
	if f.stat != nil {
		return f.stat(ctx, r, p)
	}
	return f.Backend.Stat(ctx, r, p)
}

func (f *faulty) ReadFile(ctx context.Context, r backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
	if f.read != nil {
		return f.read(ctx, r, p)
	}
	return f.Backend.ReadFile(ctx, r, p)
}

func (f *faulty) WriteFile(ctx context.Context, r backend.Ref, p string, o backend.WriteOptions, c io.Reader) (backend.Entry, error) {
	if f.write != nil {
		return f.write(ctx, r, p, o, c)
	}
	return f.Backend.WriteFile(ctx, r, p, o, c)
}

// faults are all of them.
var faults = slices.Concat(hangs, lies, floods)

var errHung = errors.New("it hung until it was given up")

// hang waits for the end of a call and never answers.
func hang[T any](ctx context.Context) (T, error) {
	var none T
	<-ctx.Done()
	return none, ctx.Err()
}

// quiet is the live side of a run that nobody listens to.
type quiet struct{ backend.RunIO }

func (quiet) Stdin() io.Reader             { return bytes.NewReader(nil) }
func (quiet) Started() error               { return nil }
func (quiet) Stdout([]byte) error          { return nil }
func (quiet) Stderr([]byte) error          { return nil }
func (quiet) Input(int) (io.Reader, error) { return nil, errors.New("no input") }

func (k *kit) askRun(ctx context.Context, ref backend.Ref) error {
	res, err := k.b.Run(ctx, backend.RunSpec{
		Ref: ref, RunID: k.session(), Program: backend.Program{File: "main"},
		Steps:   []backend.Step{{Name: "run", Argv: []string{"true"}}},
		Limits:  backend.Limits{StdoutBytes: 1 << 10, StderrBytes: 1 << 10},
		Collect: backend.CollectSpec{MaxFiles: 2, MaxFileBytes: 1 << 10},
	}, quiet{})
	if err == nil && res.Stop == backend.StopLost {
		return fmt.Errorf("lost: %w", context.Canceled) // given up after the grace
	}
	return err
}

func askRun(ctx context.Context, k *kit, ref backend.Ref) error { return k.askRun(ctx, ref) }

func askGet(ctx context.Context, k *kit, ref backend.Ref) error {
	_, err := k.b.Get(ctx, ref)
	return err
}

func askExec(ctx context.Context, k *kit, ref backend.Ref) error {
	_, err := k.b.Exec(ctx, backend.ExecRequest{Ref: ref, Argv: []string{"true"}, MaxOutputBytes: 1 << 10})
	return err
}

func askCreate(ctx context.Context, k *kit, _ backend.Ref) error {
	_, err := k.b.Create(ctx, k.createSpec())
	return err
}

func askWalk(ctx context.Context, k *kit, ref backend.Ref) error {
	_, err := k.b.Walk(ctx, backend.WalkRequest{Ref: ref, MaxEntries: 10})
	return err
}

func askStat(ctx context.Context, k *kit, ref backend.Ref) error {
	_, err := k.b.Stat(ctx, ref, data("f"))
	return err
}

func askRead(ctx context.Context, k *kit, ref backend.Ref) error {
	content, _, err := k.b.ReadFile(ctx, ref, data("f"))
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(io.Discard, content)
	return err
}

func askWrite(ctx context.Context, k *kit, ref backend.Ref) error {
	_, err := k.b.WriteFile(ctx, ref, data("f"), backend.WriteOptions{}, strings.NewReader("content"))
	return err
}
