package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/procstat"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/sdk/backend"
)

// hostileBinary builds the hostile plugin once.
var hostileBinary = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "hostile")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "hostile")
	if b, err := exec.Command("go", "build", "-o", out, "./testdata/hostile").CombinedOutput(); err != nil {
		return nil, &exec.Error{Name: string(b), Err: err}
	}
	return os.ReadFile(out)
})

// faulty is a host with a plugin that misbehaves beside one that does not, which is
// the default.
type faulty struct {
	*fixture
	h *Host
}

// install puts the hostile program there under a name.
func (f *fixture) installHostile(name string, nature map[string]any, binary []byte, extra string) {
	f.t.Helper()
	m := "schema: 1\nname: " + name + "\nversion: 1.0.0\nkind: backend\nruntime: process\nprotocol: 1\npath: fake\nstart_timeout: 20s\n" + extra
	f.install(name, m, binary, 0o755)
	all := map[string]any{"name": name}
	for k, v := range nature {
		all[k] = v
	}
	b, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(filepath.Join(f.plugins, name, "hostile.json"), b, 0o644)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func openFaulty(t *testing.T, s supervise.Settings, change func(f *fixture, binary []byte)) faulty {
	t.Helper()
	binary, err := hostileBinary()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.installHostile("steady", nil, binary, "")
	f.installHostile("hostile", nil, binary, "")
	if change != nil {
		change(f, binary)
	}
	o := f.options()
	o.supervision = s
	o.Config.Backends = []BackendConfig{{ID: "steady", Plugin: "steady"}, {ID: "hostile", Plugin: "hostile"}}
	return faulty{f, f.openWith(o)}
}

// get asks a plugin about a sandbox.
func (f faulty) get(ctx context.Context, config, id string) error {
	t, err := f.h.Target(ctx, config)
	if err != nil {
		return err
	}
	defer t.Release()
	_, err = t.Backend.Get(ctx, backend.Ref{Config: config, ID: id})
	return err
}

func (f faulty) expectState(want PluginState, causes ...string) {
	f.t.Helper()
	var st PluginStatus
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		st = status(f.h, "hostile")
		if st.State == want && !slices.ContainsFunc(causes, func(c string) bool { return !strings.Contains(st.Cause, c) }) {
			return
		}
	}
	f.t.Errorf("plugin list says %s: %q; want %s: %q", st.State, st.Cause, want, causes)
}

// quick supervision makes the tests short, and nothing else.
var quick = supervise.Settings{
	CheckEvery: 100 * time.Millisecond, CheckTimeout: 500 * time.Millisecond,
	MinPause: time.Millisecond, MaxPause: 5 * time.Millisecond, Crashes: 1 << 30,
}

// Whatever a plugin does to itself costs the call that was in it, is told with its
// cause, and nobody else notices.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		// call is what the plugin is asked, kind how that ends.
		call string
		kind backend.Kind
		// survives says that the process does.
		survives bool
		cause    string
	}{
		{name: "SIGKILL", call: "kill", kind: backend.KindUnavailable, cause: "ended by signal killed"},
		{name: "SIGSTOP", call: "stop", kind: backend.KindUnavailable, cause: "no answer to 3 health checks in a row"},
		{name: "panic in a handler", call: "panic", kind: backend.KindInternal, survives: true},
		{name: "panic in a goroutine", call: "panic-beside", kind: backend.KindUnavailable, cause: "exited with status 2; its last words: panic: in a goroutine of its own"},
		{name: "exit", call: "exit", kind: backend.KindUnavailable, cause: "exited with status 7; its last words: it had enough"},
		{name: "log flood", call: "flood", survives: true},
		{name: "64 MiB without a line end", call: "shout", survives: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := openFaulty(t, quick, nil)
			before, _ := f.h.backends.line("hostile").program().sup.Now()
			base := f.latencies(t, 400)
			var beside []time.Duration
			asked := make(chan error, 1)
			go func() { asked <- f.get(context.Background(), "hostile", c.call) }()
			for answered := false; !answered || len(beside) < 400; {
				select {
				case err := <-asked:
					answered = true
					if (err == nil) != (c.kind == "") || err != nil && backend.KindOf(err) != c.kind || backend.ProvesGone(err) {
						t.Errorf("the call that did it: %v, want %q", err, c.kind)
					}
				default: // the start of another process is part of it
					beside = append(beside, f.latencies(t, 20)...)
				}
			}
			compare(t, base, beside)
			if !c.survives {
				for status(f.h, "hostile").Restarts == 0 { // it is told in a moment
					time.Sleep(time.Millisecond)
				}
				f.expectState(PluginReady)
				d, err := f.h.PluginDetail("hostile")
				if err != nil || d.Restarts != 1 || d.Process.LastEnd == nil || !strings.Contains(d.Process.LastEnd.Cause, c.cause) {
					t.Errorf("detail %+v, %+v, %v; want the cause %q", d.PluginStatus, d.Process.LastEnd, err, c.cause)
				}
			} else if now, ok := f.h.backends.line("hostile").program().sup.Now(); !ok || now != before {
				t.Error("the process ended")
			}
			if err := f.get(t.Context(), "hostile", "x"); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if c.call == "flood" {
				d, err := f.h.PluginDetail("hostile")
				if err != nil || d.Process.LogDropped < 50_000 {
					t.Errorf("%d lines dropped, %v", d.Process.LogDropped, err)
				}
				if lines, err := f.h.PluginLog("hostile"); err != nil || len(lines) != 200 {
					t.Errorf("%d lines kept, %v", len(lines), err)
				}
			}
			if st := status(f.h, "steady"); st.State != PluginReady || st.Restarts != 0 {
				t.Errorf("the other plugin: %+v", st)
			}
		})
	}
}

// latencies are those of calls to the other plugin, none of which may fail.
func (f faulty) latencies(t *testing.T, n int) []time.Duration {
	out := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if err := f.get(t.Context(), "steady", "x"); err != nil {
			t.Fatalf("the other plugin: %v", err)
		}
		out = append(out, time.Since(began))
	}
	return out
}

// compare holds the latencies beside a fault against those without. The gate is far
// above what is seen on an idle machine; the log has the figures.
func compare(t *testing.T, base, beside []time.Duration) {
	t.Helper()
	slices.Sort(base)
	slices.Sort(beside)
	at := func(d []time.Duration, percent int) time.Duration { return d[(len(d)-1)*percent/100] }
	t.Logf("calls to the other plugin: p50 %v beside %v, p99 %v beside %v (%.1f times), %d calls",
		at(base, 50), at(beside, 50), at(base, 99), at(beside, 99), float64(at(beside, 99))/float64(at(base, 99)), len(beside))
	if at(beside, 50) > 10*at(base, 50) {
		t.Errorf("the median grew from %v to %v", at(base, 50), at(beside, 50))
	}
}

// What is wrong with a plugin's files, or with its start, is told of that plugin and
// stops no other.
func TestFaultyFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(f *fixture, binary []byte)
		causes []string
	}{
		{"garbage before the handshake", func(f *fixture, binary []byte) {
			f.installHostile("hostile", map[string]any{"garbage": 1 << 20}, binary, "")
		}, []string{"is it a Caisson plugin? It printed", "garbage garbage"}},
		{"garbage and an end", func(f *fixture, binary []byte) {
			f.installHostile("hostile", map[string]any{"garbage": 300, "ends": true}, binary, "")
		}, []string{"exited with status 4 before it was ready", "garbage garbage"}},
		{"truncated", func(f *fixture, binary []byte) {
			f.installHostile("hostile", nil, binary[:len(binary)/3], "")
		}, []string{"before it was ready"}},
		{"cut to a page", func(f *fixture, binary []byte) {
			f.installHostile("hostile", nil, binary[:4096], "")
		}, []string{"start: "}},
		{"empty", func(f *fixture, _ []byte) {
			f.installHostile("hostile", nil, []byte{}, "")
		}, []string{"exec format error"}},
		{"wrong name", func(f *fixture, binary []byte) {
			f.installHostile("hostile", map[string]any{"name": "other"}, binary, "")
		}, []string{`plugin says it is "other" 1.0.0`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := quick
			s.Crashes, s.Window = 3, time.Hour
			f := openFaulty(t, s, c.change)
			f.expectState(PluginQuarantined, append(c.causes, "3 times within 1h0m0s")...)
			if st := status(f.h, "hostile"); !strings.Contains(st.Fix, "caisson plugin reset hostile") {
				t.Errorf("fix %q", st.Fix)
			}
			if err := f.get(t.Context(), "hostile", "x"); backend.KindOf(err) != backend.KindUnavailable {
				t.Errorf("a call: %v, want unavailable", err)
			}
			f.latencies(t, 10)
			if left := socketDirs(t, f.h); left != 1 {
				t.Errorf("%d socket directories are there, want that of the other plugin", left)
			}
			// Mended, it starts when an operator says so.
			binary, _ := hostileBinary()
			f.replaceHostile(binary)
			if err := f.h.ResetPlugin("hostile"); err != nil {
				t.Fatal(err)
			}
			f.expectState(PluginReady)
		})
	}
}

// replaceHostile installs a good program in one step, as an operator would: a file that
// is being executed cannot be written.
func (f faulty) replaceHostile(binary []byte) {
	f.t.Helper()
	dir := filepath.Join(f.plugins, "hostile")
	for name, b := range map[string][]byte{"fake": binary, "hostile.json": []byte(`{"name":"hostile"}`)} {
		tmp := filepath.Join(dir, "new")
		if err := os.WriteFile(tmp, b, 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// socketDirs counts the directories for sockets.
func socketDirs(t *testing.T, h *Host) int {
	t.Helper()
	all, err := os.ReadDir(h.sockets.dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// A temporary directory with a long name is told before anything is spawned.
func TestLongSocketDirectory(t *testing.T) {
	binary, err := hostileBinary()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.installHostile("steady", nil, binary, "")
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	o := f.options()
	o.Config.Backends = []BackendConfig{{Plugin: "steady"}}
	h, err := Open(t.Context(), o)
	if err == nil {
		h.Close(context.Background())
		t.Fatal("it opened")
	}
	for _, want := range []string{"socket directory", "the system allows 107", "choose a directory with a path of at most"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// resources are what a host uses of its machine.
type resources struct {
	descriptors, goroutines, processes, sockets int
	heap                                        uint64
}

func (f faulty) resources(t *testing.T) resources {
	t.Helper()
	runtime.GC()
	runtime.GC()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return resources{len(fds), runtime.NumGoroutine(), children(t), socketDirs(t, f.h), m.HeapAlloc}
}

// children counts the processes whose parent this one is, zombies too.
func children(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	me := strconv.Itoa(os.Getpid())
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // no process
		}
		if f, err := procstat.Fields(pid); err == nil && len(f) > 1 && f[1] == me {
			n++
		}
	}
	return n
}

// Fifty processes that are killed, one after the other, leave nothing behind.
func TestFiftyCrashes(t *testing.T) {
	f := openFaulty(t, quick, nil)
	sup := f.h.backends.line("hostile").program().sup
	crash := func() {
		u, err := sup.Unit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(u.proc.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-u.proc.Done()
		for next, ok := sup.Now(); !ok || next == u; next, ok = sup.Now() {
			time.Sleep(time.Millisecond)
		}
	}
	for range 5 { // whatever is made once is made
		crash()
	}
	f.expectState(PluginReady)
	before := f.resources(t)
	for range 50 {
		crash()
	}
	f.expectState(PluginReady)
	after := f.resources(t)
	t.Logf("before %+v, after %+v", before, after)
	if d := status(f.h, "hostile"); d.Restarts != 55 {
		t.Errorf("%d restarts", d.Restarts)
	}
	if after.processes != before.processes || after.sockets != before.sockets {
		t.Errorf("processes or sockets are left: %+v became %+v", before, after)
	}
	if after.descriptors > before.descriptors+3 || after.goroutines > before.goroutines+6 || after.heap > before.heap+4<<20 {
		t.Errorf("%+v became %+v", before, after)
	}
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
