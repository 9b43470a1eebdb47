package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/testcache"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Programs that are out to fill and to confuse the host, in the process that really
// runs them, with the limits that a caller gives to sandboxes.
func TestHostilePrograms(t *testing.T) {
	needPacks(t)
	if testing.Short() {
		t.Skip("filling sandboxes takes a while")
	}
	dir := t.TempDir()
	p := startWith(t, dir, backend.EnvCache+"="+testcache.Dir(), envPacks+"="+onlyPython(t))
	awaitReady(t, p.Backend())
	var settled int64 // memory after the first shape
	for _, c := range []struct {
		shape  string
		source string
		wall   time.Duration
		stop   backend.StopReason
		stdout string
		// changed and skipped are the least that must be reported.
		changed, skipped int
	}{
		{"a million files", `
import os
n = 0
try:
    while n < 1_000_000:
        open(f"f{n}", "x").close(); n += 1
except OSError as e:
    print(e.errno, n)
`, time.Minute, backend.StopExit, "51 5000\n", 100, 4_900},
		{"files until it is stopped", `
n = 0
while True:
    open(f"f{n % 4_000}", "w").close(); n += 1
`, 2 * time.Second, backend.StopTimeout, "", 100, 1},
		{"endless writing", `
f = open("f", "wb", 0)
try:
    while True: f.write(bytes(1 << 20))
except OSError as e:
    import os
    print(e.errno, os.stat("f").st_size)
`, time.Minute, backend.StopExit, "51 67108864\n", 0, 1},
		{"writing without looking", `
f = open("f", "wb", 0)
while True: f.write(bytes(1 << 20))
`, time.Minute, backend.StopDisk, "", 0, 1},
		{"links everywhere", `
import os
os.makedirs("d/e"); open("d/f", "w").write("x")
for i in range(2000):
    os.rename("d", "away"); os.symlink("away", "d"); os.unlink("d"); os.rename("away", "d")
    os.link("d/f", "d/e/f"); os.rename("d/e/f", "d/f2"); os.replace("d/f2", "d/e/f"); os.unlink("d/e/f")
print(sorted(os.listdir("d")))
`, time.Minute, backend.StopExit, "['e', 'f']\n", 1, 0},
	} {
		t.Run(c.shape, func(t *testing.T) {
			b := p.Backend()
			ref := newSandbox(t, b, strings.ReplaceAll(c.shape, " ", "-"))
			if out, r := run(t, b, ref, "print('warm')", time.Minute); out != "warm\n" || r.Stop != backend.StopExit {
				t.Fatalf("%q, %+v", out, r)
			}
			_, files := usage(t, p)
			began := time.Now()
			out, r := run(t, b, ref, c.source, c.wall)
			took := time.Since(began)
			if r.Stop != c.stop || out != c.stdout || r.CollectFailed || len(r.Changed) < c.changed || r.Skipped < c.skipped {
				t.Errorf("%s, %q, %d changed, %d skipped, failed %v", r.Stop, out, len(r.Changed), r.Skipped, r.CollectFailed)
			}
			t.Logf("took %v, the program %v", took.Round(time.Millisecond), r.Usage.Wall.Round(time.Millisecond))
			if out, r := run(t, b, ref, "print('fine')", time.Minute); out != "fine\n" || r.Stop != backend.StopExit || len(r.Changed) > 0 {
				t.Errorf("the next run: %q, %+v", out, r)
			}
			if err := b.Delete(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
			for _, d := range []string{"sessions/c", "trash"} {
				if left, _ := os.ReadDir(filepath.Join(dir, d)); len(left) > 0 {
					t.Errorf("%s holds %v", d, left)
				}
			}
			memory, nowFiles := usage(t, p)
			t.Logf("the plugin has %d MiB", memory>>20)
			if nowFiles > files {
				t.Errorf("%d descriptors are open, %d before", nowFiles, files)
			}
			if settled == 0 {
				settled = memory
			}
			if memory > settled+128<<20 {
				t.Errorf("the plugin has %d MiB, it had %d MiB", memory>>20, settled>>20)
			}
		})
	}
}

// onlyPython returns a directory of packs with nothing else, so that no other
// interpreter is loaded while memory is looked at.
func onlyPython(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range packs.Table() {
		if p.Name != packs.CPython {
			continue
		}
		file := filepath.Join("node_modules", filepath.FromSlash(p.File))
		from, err := filepath.Abs(filepath.Join(packsDir, file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, to); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func newSandbox(t *testing.T, b backend.Backend, id string) backend.Ref {
	t.Helper()
	sb, err := b.Create(t.Context(), backend.CreateSpec{
		Config: "c", Session: id, Metadata: backend.Metadata{Config: "c", Session: id, Tenant: "acme"},
		Limits: backend.Limits{DiskBytes: 64 << 20, DiskFiles: 5000},
	})
	if err != nil {
		t.Fatal(err)
	}
	return sb.Ref
}

func awaitReady(t *testing.T, b backend.Backend) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(3 * time.Minute); ; {
		if h, err := b.Health(t.Context()); err == nil && h.Ready {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("the plugin does not become ready")
		}
	}
}

// run runs a Python program and returns what it printed.
func run(t *testing.T, b backend.Backend, ref backend.Ref, source string, wall time.Duration) (string, backend.RunResult) {
	t.Helper()
	var out recorded
	r, err := b.Run(t.Context(), backend.RunSpec{
		Ref: ref, RunID: "r", Program: backend.Program{File: "main.py", Source: []byte(source)},
		Steps:  []backend.Step{{Name: "run", Argv: []string{"python3", "{dir}/main.py"}}},
		Limits: backend.Limits{Wall: wall},
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if out.stderr.Len() > 0 {
		t.Logf("stderr: %s", out.stderr.String())
	}
	return out.stdout.String(), r
}

// usage is the memory of the plugin in bytes, and how many files it has open, without those
// of empty sandboxes that it keeps ready: they are made again at any time.
func usage(t *testing.T, p *process.Process) (memory int64, files int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", p.PID())
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Skip("the system does not tell")
	}
	for _, f := range all {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && !strings.Contains(to, "/ready/") {
			files++
		}
	}
	return resident(t, p), files
}

// recorded keeps what a program prints.
type recorded struct {
	stdout, stderr bytes.Buffer
}

func (*recorded) Input(int) (io.Reader, error) { return nil, io.ErrUnexpectedEOF }
func (*recorded) Stdin() io.Reader             { return strings.NewReader("") }
func (*recorded) Started() error               { return nil }
func (r *recorded) Stdout(p []byte) error      { r.stdout.Write(p); return nil }
func (r *recorded) Stderr(p []byte) error      { r.stderr.Write(p); return nil }
func (*recorded) Call(context.Context, backend.ControlCall) (backend.ControlReply, error) {
	return backend.ControlReply{}, io.ErrUnexpectedEOF
}

// A program swaps directories and links as fast as it can while callers use the same
// paths through the wire. Nobody fails in a way that would cost the sandbox, and the
// program is stopped in time.
func TestProgramAgainstCallers(t *testing.T) {
	needPacks(t)
	if testing.Short() {
		t.Skip("it takes a few seconds")
	}
	dir := t.TempDir()
	p := startWith(t, dir, backend.EnvCache+"="+testcache.Dir(), envPacks+"="+onlyPython(t))
	b := p.Backend()
	awaitReady(t, b)
	ref := newSandbox(t, b, "swapped")
	ctx := t.Context()
	done := make(chan backend.RunResult, 1)
	started := make(chan struct{})
	go func() {
		out := &announced{started: started}
		r, err := b.Run(ctx, backend.RunSpec{
			Ref: ref, RunID: "r", Limits: backend.Limits{Wall: 3 * time.Second},
			Program: backend.Program{File: "main.py", Source: []byte(`
import os
os.makedirs("p/d"); os.makedirs("q/r"); os.symlink("../../f", "q/r/up")
print("on", flush=True)
def quietly(f, *a):
    try: f(*a)
    except OSError: pass
def write(name):
    with open(name, "w") as f:
        f.write("x" * 1000); f.truncate(10)
while True:
    quietly(os.rename, "p", "away"); quietly(os.symlink, "q", "p"); quietly(os.unlink, "p")
    quietly(os.rename, "q/r/up", "p"); quietly(os.rename, "p", "q/r/up"); quietly(os.rename, "away", "p")
    quietly(write, "p/f"); quietly(os.link, "p/f", "p/g"); quietly(os.rename, "p/g", "p/f"); quietly(os.unlink, "p/f")
`)},
			Steps: []backend.Step{{Name: "run", Argv: []string{"python3", "{dir}/main.py"}}},
		}, out)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	select {
	case <-started:
	case r := <-done:
		t.Fatalf("the program ended by itself: %+v", r)
	}
	check := func(op string, err error) {
		t.Helper()
		if err != nil && (backend.ProvesGone(err) || strings.Contains(err.Error(), dir)) {
			t.Errorf("%s: %v", op, err)
		}
	}
	calls := 0
	var r backend.RunResult
	for running := true; running; calls++ {
		_, err := b.Stat(ctx, ref, data("p/f"))
		check("Stat", err)
		f, _, err := b.ReadFile(ctx, ref, data("p/f"))
		check("ReadFile", err)
		if err == nil {
			if _, err := io.Copy(io.Discard, f); err != nil {
				t.Errorf("read: %v", err)
			}
			f.Close()
		}
		_, err = b.WriteFile(ctx, ref, data("p/f"), backend.WriteOptions{}, strings.NewReader("from outside"))
		check("WriteFile", err)
		check("MakeDir", b.MakeDir(ctx, ref, data("p/d/e")))
		_, err = b.ListDir(ctx, ref, data("p"))
		check("ListDir", err)
		_, err = b.Walk(ctx, backend.WalkRequest{Ref: ref, Digests: true})
		check("Walk", err)
		check("Remove", b.Remove(ctx, ref, data("p/d")))
		select {
		case r = <-done:
			running = false
		default:
		}
	}
	if r.Stop != backend.StopTimeout || r.CollectFailed || r.Usage.Wall > 20*time.Second {
		t.Errorf("after %d rounds of calls: %s after %v, collection failed %v", calls, r.Stop, r.Usage.Wall, r.CollectFailed)
	}
	if out, r := run(t, b, ref, "import os; print(os.getcwd())", time.Minute); out != "/mnt/data\n" || r.Stop != backend.StopExit {
		t.Errorf("the next run: %q, %+v", out, r)
	}
	if err := b.Delete(ctx, ref); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "trash")); len(left) > 0 {
		t.Errorf("trash holds %v", left)
	}
}

// announced closes started when the program prints something.
type announced struct {
	recorded
	started chan struct{}
	once    sync.Once
}

func (a *announced) Stdout(p []byte) error {
	a.once.Do(func() { close(a.started) })
	return a.recorded.Stdout(p)
}
