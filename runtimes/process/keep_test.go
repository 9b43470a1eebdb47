package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/internal/procstat"
)

// keptSpec is the same in every host.
func keptSpec(dir string, life time.Duration) Spec {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{Name: "keeps", Path: exe, Env: []string{modeEnv + "=serve:"}, Keep: Keep{For: life, Dir: dir}}
}

// keeperTest is a host that starts a plugin which may outlive it, and waits to be
// killed.
func keeperTest(arg string) {
	life, dir, _ := strings.Cut(arg, ",")
	d, err := time.ParseDuration(life)
	if err != nil {
		panic(err)
	}
	p, err := Start(context.Background(), keptSpec(dir, d))
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	_, _ = io.Copy(io.Discard, os.Stdin)
	hang()
}

// abandoned is a plugin whose host was killed.
type abandoned struct {
	dir, tmp string
	pid      int
	spec     Spec
	host     *exec.Cmd
}

// abandon starts a host with a plugin; kill makes it an orphan.
func abandon(t *testing.T, life time.Duration) abandoned {
	t.Helper()
	tmp, err := os.MkdirTemp("", "k") // short: a socket's directory is below
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	a := abandoned{dir: filepath.Join(tmp, "kept"), tmp: tmp}
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	a.spec = keptSpec(a.dir, life)
	a.host = exec.Command("/proc/self/exe")
	a.host.Env = []string{modeEnv + "=keeper:" + life.String() + "," + a.dir, "TMPDIR=" + tmp}
	// The path of the program is part of what has to be equal.
	a.host.Path = a.spec.Path
	stdin, err := a.host.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close() })
	out, err := a.host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.host.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		a.pid, err = strconv.Atoi(strings.TrimSpace(line))
	}
	if err != nil {
		t.Fatalf("the host says %q: %v", line, err)
	}
	t.Cleanup(func() {
		_ = a.host.Process.Kill()
		_ = a.host.Wait()
		_ = syscall.Kill(-a.pid, syscall.SIGKILL) // of a test that failed
		os.RemoveAll(tmp)
	})
	return a
}

func (a abandoned) kill(t *testing.T) {
	t.Helper()
	_ = a.host.Process.Kill()
	_ = a.host.Wait()
	if err := syscall.Kill(a.pid, 0); err != nil {
		t.Fatalf("the plugin ended with its host: %v", err)
	}
}

// left are the names of what is in the directories.
func (a abandoned) left(t *testing.T) (names []string) {
	t.Helper()
	for _, dir := range []string{a.dir, a.tmp} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Name() != "kept" {
				names = append(names, e.Name())
			}
		}
	}
	return names
}

func (a abandoned) expectNothingLeft(t *testing.T) {
	t.Helper()
	wantGone(t, a.pid)
	if left := a.left(t); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// A plugin that may outlive its host is adopted by the next, with what it holds.
func TestAdopt(t *testing.T) {
	a := abandon(t, time.Minute)
	if _, err := Adopt(t.Context(), a.spec); !errors.Is(err, ErrNothingKept) {
		t.Errorf("while its host lives: %v", err)
	}
	if did := EndKept(a.dir, func(string) bool { return false }); len(did) > 0 {
		t.Errorf("while its host lives EndKept did %q", did)
	}
	for _, name := range a.left(t) {
		if info, err := os.Stat(filepath.Join(a.dir, name)); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	a.kill(t)

	logs := &logBuffer{}
	a.spec.Log = hclog.New(&hclog.LoggerOptions{Output: logs, Level: hclog.Info})
	p, err := Adopt(t.Context(), a.spec)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := execute(t, p, "pid"); err != nil || res.ExitCode != a.pid || p.PID() != a.pid {
		t.Errorf("adopted process %d says it is %d (%v), want %d", p.PID(), res.ExitCode, err, a.pid)
	}
	if _, err := Adopt(t.Context(), a.spec); !errors.Is(err, ErrNothingKept) {
		t.Errorf("a second time: %v", err)
	}
	if _, err := execute(t, p, "flood"); err != nil {
		t.Fatal(err)
	}
	for waited := time.Now(); !strings.Contains(strings.Join(p.Lines(), "\n"), `"line":99999`); time.Sleep(10 * time.Millisecond) { // its log goes on
		if time.Since(waited) > 2*time.Minute {
			t.Fatalf("the end of a flood does not come; last is %q", p.Lines()[max(0, len(p.Lines())-3):])
		}
	}
	if p.Dropped() == 0 {
		t.Error("the budget of its log is not kept")
	}
	for _, name := range a.left(t) {
		if info, err := os.Stat(filepath.Join(a.dir, name)); err == nil && info.Sys().(*syscall.Stat_t).Blocks > 16<<20/512 {
			t.Errorf("%s occupies %d blocks", name, info.Sys().(*syscall.Stat_t).Blocks)
		}
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.expectNothingLeft(t)
	if cause := p.ExitCause(); !strings.Contains(cause, "another host had started it") {
		t.Errorf("cause %q", cause)
	}
}

// An adopted plugin that crashes is noticed as its own host would.
func TestAdoptedPluginCrashes(t *testing.T) {
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		a := abandon(t, time.Minute)
		a.kill(t)
		p, err := Adopt(t.Context(), a.spec)
		if err != nil {
			t.Fatal(err)
		}
		res, err := execute(t, p, "descendant")
		if err != nil {
			t.Fatal(err)
		}
		if how == syscall.SIGSTOP {
			freeze(t, a.pid)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := p.Stop(ctx); err != nil {
				t.Fatal(err)
			}
		} else if err := syscall.Kill(a.pid, how); err != nil {
			t.Fatal(err)
		}
		await(t, p.Done())
		if p.Serving() {
			t.Error("it serves")
		}
		wantGone(t, res.ExitCode)
		a.expectNothingLeft(t)
	}
}

// Where no host comes, it ends by itself after its time.
func TestUnattendedPluginEnds(t *testing.T) {
	a := abandon(t, time.Second)
	time.Sleep(1500 * time.Millisecond) // with a host it lives longer than that
	a.kill(t)
	wantGone(t, a.pid)
	if _, err := Adopt(t.Context(), a.spec); err == nil || errors.Is(err, ErrNothingKept) || !strings.Contains(err.Error(), "it has ended") {
		t.Errorf("Adopt = %v", err)
	}
	a.expectNothingLeft(t)
}

// What does not fit any more is ended; nobody has two of them.
func TestAdoptRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, a *abandoned)
		want   string
	}{
		{"another environment", func(_ *testing.T, a *abandoned) { a.spec.Env = append(a.spec.Env, "REGION=eu") }, "started in another way"},
		{"another program", func(t *testing.T, a *abandoned) {
			b, err := os.ReadFile(a.spec.Path)
			if err != nil {
				t.Fatal(err)
			}
			a.spec.Path = filepath.Join(t.TempDir(), "next")
			if err := os.WriteFile(a.spec.Path, append(b, 0), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "its program was replaced"},
		{"an open socket directory", func(t *testing.T, a *abandoned) {
			all, err := filepath.Glob(filepath.Join(a.tmp, keptPrefix+"*"))
			if err != nil || len(all) != 1 {
				t.Fatalf("%q %v", all, err)
			}
			if err := os.Chmod(all[0], 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(all[0]) })
		}, "not a directory of this user alone"},
		{"frozen", func(t *testing.T, a *abandoned) {
			freeze(t, a.pid)
			a.spec.StartTimeout = 300 * time.Millisecond
		}, "no answer within 300ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := abandon(t, time.Minute)
			a.kill(t)
			c.change(t, &a)
			if _, err := Adopt(t.Context(), a.spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Adopt = %v, want %q", err, c.want)
			}
			wantGone(t, a.pid)
			if _, err := Adopt(t.Context(), a.spec); !errors.Is(err, ErrNothingKept) {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

// A record that names another process, by mistake or by malice, costs that process
// nothing.
func TestForgedRecord(t *testing.T) {
	a := abandon(t, time.Minute)
	a.kill(t)
	paths, err := filepath.Glob(filepath.Join(a.dir, "*"+recordEnding))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q %v", paths, err)
	}
	good, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(good, &r); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command("/bin/sleep", "1000")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	}()
	started, err := procstat.Started(victim.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	keep := r.Sockets
	r.Sockets = filepath.Join(a.tmp, keptPrefix+"nothing")
	for name, c := range map[string]struct {
		change func(r *record)
		mode   os.FileMode
		want   string
	}{
		"its number":       {func(r *record) { r.PID = victim.Process.Pid }, 0o600, "its number is another's"},
		"number and start": {func(r *record) { r.PID, r.Started = victim.Process.Pid, started }, 0o600, "executes another program"},
		"another boot":     {func(r *record) { r.Boot = "x" }, 0o600, "the machine was started since"},
		"init":             {func(r *record) { r.PID = 1 }, 0o600, "not a record"},
		"everybody":        {func(r *record) { r.PID = -1 }, 0o600, "not a record"},
		"another schema":   {func(r *record) { r.Schema = 2 }, 0o600, "not a record"},
		"a directory to remove": {func(r *record) {
			r.PID, r.Sockets = victim.Process.Pid, a.dir
		}, 0o600, "not a record"},
		"open to others": {func(*record) {}, 0o644, "not a file of this user alone"},
	} {
		forged := r
		c.change(&forged)
		b, err := json.Marshal(forged)
		if err == nil {
			err = errors.Join(os.WriteFile(paths[0], b, c.mode), os.Chmod(paths[0], c.mode))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Adopt(t.Context(), a.spec); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Adopt = %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(paths[0]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the record is still there", name)
		}
		if err := victim.Process.Signal(syscall.Signal(0)); err != nil {
			t.Fatalf("%s: another process was ended: %v", name, err)
		}
	}
	// The right one is still good.
	r.Sockets = keep
	log, err := os.Create(r.Log) // which the forged ones had removed
	if err != nil {
		t.Fatal(err)
	}
	log.Close()
	if err := os.WriteFile(paths[0], good, 0o600); err != nil {
		t.Fatal(err)
	}
	if did := EndKept(a.dir, func(name string) bool { return name == "keeps" }); len(did) > 0 {
		t.Errorf("spared, and yet %q", did)
	}
	did := EndKept(a.dir, func(string) bool { return false })
	if len(did) != 1 || !strings.Contains(did[0], "was ended") {
		t.Errorf("EndKept did %q", did)
	}
	a.expectNothingLeft(t)
}

// What a host left that died while it started a process goes after a while.
func TestLooseFiles(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{
		"a-1.log": old, ".kept-1": old, "b-2.log": time.Now(), ".kept-2": time.Now(), "c-3.log": old, "other": old,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	held, err := os.Create(filepath.Join(dir, "c-3"+recordEnding))
	if err == nil {
		defer held.Close()
		err = lockFile(held) // by a host that lives
	}
	if err == nil {
		err = held.Chmod(0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	EndKept(dir, func(string) bool { return false })
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	var names []string
	for _, p := range left {
		names = append(names, filepath.Base(p))
	}
	slices.Sort(names)
	if want := []string{".kept-2", "b-2.log", "c-3" + recordEnding, "c-3.log", "other"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("left %q (%v), want %q", names, err, want)
	}
}

// A host that dies while it starts a process leaves a record that says what else it
// left. Nobody is taken for that process.
func TestHostDiesWhileItStarts(t *testing.T) {
	for _, adopts := range []bool{false, true} {
		tmp := t.TempDir()
		dir := filepath.Join(tmp, "kept")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		spec := keptSpec(dir, time.Minute)
		sockets, err := makeSocketDir(tmp, keptPrefix)
		if err != nil {
			t.Fatal(err)
		}
		bin, err := openBinary(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer bin.close()
		k, err := beginKept(spec, bin, sockets)
		if err != nil {
			t.Fatal(err)
		}
		if did := EndKept(dir, func(string) bool { return false }); len(did) > 0 {
			t.Errorf("while the host lives: %q", did)
		}
		_ = k.file.Close() // with the host
		k.log.close()
		if adopts {
			if _, err := Adopt(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "it had not been started") {
				t.Errorf("Adopt = %v", err)
			}
		} else if did := EndKept(dir, func(string) bool { return false }); len(did) != 1 || !strings.Contains(did[0], "is gone") {
			t.Errorf("EndKept did %q", did)
		}
		for _, path := range []string{filepath.Join(dir, "*"), filepath.Join(tmp, keptPrefix+"*")} {
			if left, err := filepath.Glob(path); err != nil || len(left) > 0 {
				t.Errorf("left %q, %v", left, err)
			}
		}
	}
}

// A record that is not one says why.
func TestBadRecords(t *testing.T) {
	const good = `{"schema":1,"name":"x","pid":2,"sockets":"/tmp/caisson-k1"}`
	if _, err := parseRecord(strings.NewReader(good + "\n")); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		good + good:                            "something follows it",
		good + "x":                             "something follows it",
		good + strings.Repeat(" ", maxRecord):  "more than 65536 bytes",
		`{"schema":1,"pids":2}`:                `unknown field "pids"`,
		strings.Replace(good, ":2", ":1", 1):   "not a record",
		strings.Replace(good, ":2", ":-2", 1):  "not a record",
		strings.Replace(good, "-k1", "-x1", 1): "not a record",
	} {
		_, err := parseRecord(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%.100q: %v, want %q", text, err, want)
		}
	}
}

func TestKeepRefuses(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(private, "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Spec){
		"not between 1s and 1h0m0s":       func(s *Spec) { s.Keep.For = 2 * time.Hour },
		"not a directory of this user":    func(s *Spec) { s.Keep.Dir = open },
		"no such file":                    func(s *Spec) { s.Keep.Dir = filepath.Join(open, "absent") },
		"a script cannot be kept":         func(s *Spec) { s.Path = script },
		"CAISSON_PLUGIN_KEEP is reserved": func(s *Spec) { s.Env = append(s.Env, "CAISSON_PLUGIN_KEEP=1h") },
	} {
		spec := keptSpec(private, time.Minute)
		change(&spec)
		if _, err := Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start = %v, want %q", err, want)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"schema":1,"name":"x","pid":2,"sockets":"/tmp/caisson-k1"}`))
	f.Add([]byte(`{"schema":1,"name":"x","pid":2,"sockets":"/tmp/caisson-k/../../etc"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRecord(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		if r.PID <= 1 && r.PID != 0 || filepath.Clean(r.Sockets) != r.Sockets || !strings.HasPrefix(filepath.Base(r.Sockets), keptPrefix) {
			t.Errorf("accepted %+v", r)
		}
	})
}
