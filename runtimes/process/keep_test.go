package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
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
