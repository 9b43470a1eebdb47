package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

func TestPanicInACallCostsOnlyTheCall(t *testing.T) {
	p, logs := begin(t, "serve:")
	err := p.Backend().OpenConfig(t.Context(), "c", []byte("{}"))
	if backend.KindOf(err) != backend.KindInternal || strings.Contains(err.Error(), "in a handler") {
		t.Errorf("err = %v", err)
	}
	if _, err := p.Backend().Info(t.Context()); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	_ = p.Stop(t.Context())
	if !strings.Contains(logs.String(), "in a handler") {
		t.Errorf("the log does not tell of the panic:\n%s", logs)
	}
}

func TestCrashMidRun(t *testing.T) {
	for _, c := range []struct {
		name string
		kill func(*testing.T, *Process)
		want string
	}{
		{"killed", func(_ *testing.T, p *Process) { syscall.Kill(p.PID(), syscall.SIGKILL) }, "ended by signal killed: perhaps it ran out of memory"},
		{"panic", func(t *testing.T, p *Process) {
			if _, err := execute(t, p, "crash"); backend.KindOf(err) != backend.KindUnavailable {
				t.Errorf("the call in flight: %v", err)
			}
		}, "exited with status 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, logs := begin(t, "serve:")
			live := &recorder{started: make(chan struct{}), output: make(chan struct{})}
			type outcome struct {
				res backend.RunResult
				err error
			}
			ran := make(chan outcome, 1)
			go func() {
				res, err := p.Backend().Run(t.Context(), runSpec(), live)
				ran <- outcome{res, err}
			}()
			await(t, live.output)
			c.kill(t, p)
			o := <-ran
			if o.err != nil || o.res.Stop != backend.StopLost || o.res.StdoutBytes != 7 || !o.res.CollectFailed {
				t.Errorf("result %+v, %v", o.res, o.err)
			}
			await(t, p.Done())
			if cause := p.ExitCause(); !strings.HasPrefix(cause, c.want) {
				t.Errorf("cause %q, want %q\n%s", cause, c.want, logs)
			}
			if c.name == "panic" {
				_, lines, _ := p.Exit()
				if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "in a goroutine of its own") }) {
					t.Errorf("the kept lines do not tell of the panic: %q", lines)
				}
			}
		})
	}
}

func runSpec() backend.RunSpec {
	return backend.RunSpec{
		Ref: backend.Ref{Config: "c", ID: "s"}, RunID: "r",
		Program: backend.Program{File: "main"}, Steps: []backend.Step{{Name: "run", Argv: []string{"x"}}},
	}
}

// recorder is a RunIO that says what has come.
type recorder struct {
	started, output chan struct{}
	backend.RunIO
}

func (r *recorder) Stdin() io.Reader { return strings.NewReader("") }

func (r *recorder) Started() error {
	close(r.started)
	return nil
}

func (r *recorder) Stdout([]byte) error {
	close(r.output)
	return nil
}

// freeze stops a process and waits until it stands still: the signal reaches one
// thread after the other.
func freeze(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(tasks) == 0 {
			t.Fatalf("no tasks of process %d: %v", pid, err)
		}
		if !slices.ContainsFunc(tasks, moves) {
			return
		}
		runtime.Gosched()
	}
}

// moves reports whether a task is in any state but stopped; its name, which may
// hold anything, comes before the state and in parentheses.
func moves(stat string) bool {
	b, err := os.ReadFile(stat)
	if err != nil {
		return false // it ended
	}
	_, state, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')'):]), " ")
	return !strings.HasPrefix(state, "T")
}

func TestFrozenPluginIsStopped(t *testing.T) {
	p, _ := begin(t, "serve:")
	freeze(t, p.PID())
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, _, _ := p.Exit(); exit.Signal != "killed" || strings.Contains(exit.String(), "memory") {
		t.Errorf("it ended with %v", exit)
	}
}

// A stop whose context has ended kills at once.
func TestImpatientStop(t *testing.T) {
	p, _ := begin(t, "serve:")
	freeze(t, p.PID())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestStubbornPluginIsStopped(t *testing.T) {
	p, _ := begin(t, "serve:stubborn")
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestDescendantsDie(t *testing.T) {
	for _, crash := range []bool{false, true} {
		p, _ := begin(t, "serve:")
		res, err := execute(t, p, "descendant")
		if err != nil {
			t.Fatal(err)
		}
		if crash {
			syscall.Kill(p.PID(), syscall.SIGKILL)
			await(t, p.Done())
		} else if err := p.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantGone(t, res.ExitCode)
	}
}

func TestPluginDiesWithItsHost(t *testing.T) {
	root := t.TempDir()
	host := exec.Command("/proc/self/exe")
	host.Env = []string{modeEnv + "=host:" + root}
	stdin, err := host.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 300)
	n, _ := out.Read(line)
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatalf("the host says %q", line[:n])
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the plugin does not run: %v", err)
	}
	_ = host.Process.Kill()
	_ = host.Wait()
	wantGone(t, pid)
}
