package embedded

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend"
)

// instant is an engine whose programs do nothing, at once: what is left is what a run
// costs beside the program.
type instant struct{}

func (instant) Run(_ context.Context, p interp.Program) (interp.Result, error) {
	p.Started()
	if _, err := p.Stdout.Write([]byte("1\n")); err != nil {
		return interp.Result{}, err
	}
	return interp.Result{Reason: interp.ReasonExit}, nil
}
func (instant) Prepare(context.Context, string) error { return nil }
func (instant) Languages() []interp.Language          { return nil }
func (instant) Sweep() error                          { return nil }

func (instant) Report() []string                      { return nil }
func (instant) Warm(context.Context, ...string) error { return nil }

// nobody listens.
type nobody struct{}

func (nobody) Input(int) (io.Reader, error) { return nil, io.ErrUnexpectedEOF }
func (nobody) Stdin() io.Reader             { return strings.NewReader("") }
func (nobody) Started() error               { return nil }
func (nobody) Stdout([]byte) error          { return nil }
func (nobody) Stderr([]byte) error          { return nil }
func (nobody) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, io.ErrUnexpectedEOF
}

func newInstant(tb testing.TB) *Backend {
	tb.Helper()
	b, err := New(Options{Version: "1.0.0", Dir: tb.TempDir(), Engine: instant{}, Quota: rootfs.DefaultLimits()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	if err := b.OpenConfig(tb.Context(), "c", nil); err != nil {
		tb.Fatal(err)
	}
	return b
}

func made(tb testing.TB, b *Backend, id string) backend.Ref {
	sb, err := b.Create(tb.Context(), backend.CreateSpec{
		Config: "c", Session: id, Metadata: backend.Metadata{Deployment: "d", Config: "c", Session: id, Tenant: "acme", User: "u", Origin: "exec"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return sb.Ref
}

var printOne = []byte("print(1)")

func runOnce(tb testing.TB, b *Backend, ref backend.Ref) {
	r, err := b.Run(tb.Context(), backend.RunSpec{
		Ref: ref, RunID: "r", Program: backend.Program{File: "main.py", Source: printOne},
		Steps: []backend.Step{{Name: "run", Argv: []string{"python3", "{dir}/main.py"}}},
	}, nobody{})
	if err != nil || r.Stop != backend.StopExit || r.CollectFailed || len(r.Changed) > 0 {
		tb.Fatalf("%+v, %v", r, err)
	}
}

// BenchmarkRun is what a run costs beside the program: in a sandbox that is made for
// it, in one that is there, and in one that holds a hundred files. Beside it is what
// it costs to make, fill, read twice and remove directories for each run.
//
//	go test -run - -bench Run ./plugins/wasm/internal/embedded
func BenchmarkRun(b *testing.B) {
	b.Run("fresh", func(b *testing.B) {
		be := newInstant(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			runOnce(b, be, made(b, be, strconv.Itoa(i)))
		}
	})
	b.Run("fresh and deleted", func(b *testing.B) {
		be := newInstant(b)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			ref := made(b, be, strconv.Itoa(i))
			runOnce(b, be, ref)
			if err := be.Delete(b.Context(), ref); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		be := newInstant(b)
		ref := made(b, be, "x")
		b.ReportAllocs()
		for b.Loop() {
			runOnce(b, be, ref)
		}
	})
	b.Run("again with files", func(b *testing.B) {
		be := newInstant(b)
		ref := made(b, be, "x")
		for i := range 100 {
			if _, err := be.WriteFile(b.Context(), ref, fmt.Sprintf("%s/f%d", backend.DataDir, i), backend.WriteOptions{}, strings.NewReader("content")); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			runOnce(b, be, ref)
		}
	})
	b.Run("naive", func(b *testing.B) {
		dir := b.TempDir()
		b.ReportAllocs()
		for b.Loop() {
			root, err := os.MkdirTemp(dir, "run")
			if err != nil {
				b.Fatal(err)
			}
			for _, sub := range []string{"data", "entry", "tmp"} {
				if err := os.Mkdir(filepath.Join(root, sub), 0o700); err != nil {
					b.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(root, "entry", "main.py"), printOne, 0o600); err != nil {
				b.Fatal(err)
			}
			for range 2 {
				if _, err := os.ReadDir(filepath.Join(root, "data")); err != nil {
					b.Fatal(err)
				}
			}
			if err := os.RemoveAll(root); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A run that writes nothing costs a bounded number of allocations, however many files
// there are; the benchmark says how long it takes.
func TestRunAllocations(t *testing.T) {
	be := newInstant(t)
	few, many := made(t, be, "few"), made(t, be, "many")
	for i := range 300 {
		if _, err := be.WriteFile(t.Context(), many, fmt.Sprintf("%s/f%d", backend.DataDir, i), backend.WriteOptions{}, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, ref := range []backend.Ref{few, many} {
		runOnce(t, be, ref)
		if n := testing.AllocsPerRun(20, func() { runOnce(t, be, ref) }); n > 80 {
			t.Errorf("%s: %v allocations, more than 80", ref.ID, n)
		}
	}
}

// Sandboxes that nobody uses are directories and nothing else: ten thousand may take
// 64 MiB, and a thousand here take no more than a tenth of their share.
func TestIdleSandboxesTakeNoMemory(t *testing.T) {
	be := newInstant(t)
	const warm, more = 200, 1000 // the first fill what is kept for the ones used last
	use := func(from, n int) {
		for i := range n {
			runOnce(t, be, made(t, be, strconv.Itoa(from+i)))
		}
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	use(0, warm)
	before, fds := heap(), openDescriptors(t)
	use(warm, more)
	const share = 64 << 20 / 10_000
	if grown := heap() - before; grown > more*share/10 {
		t.Errorf("%d sandboxes take %d bytes, %d each", more, grown, grown/more)
	}
	if now := openDescriptors(t); now > fds+8 { // those made ahead come and go
		t.Errorf("%d descriptors are open, %d before", now, fds)
	}
	list, err := be.List(t.Context(), backend.ListFilter{Config: "c"})
	if err != nil || len(list) != warm+more {
		t.Errorf("%d are listed, %v", len(list), err)
	}
}
