package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/internal/pluginwire"
	"github.com/caisson-run/caisson/sdk/backend"
)

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

// Plugins that crash over and over, each in another phase, leave nothing: no
// descriptors, goroutines, threads' worth of processes or files.
func TestCrashCycles(t *testing.T) {
	cycle := func(i int) {
		switch i % 3 {
		case 0: // killed while it serves
			spec, _ := testSpec(t, "serve:")
			p, err := Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			syscall.Kill(p.PID(), syscall.SIGKILL)
			await(t, p.Done())
			if err := p.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		case 1: // killed by its own hand before it serves
			spec, _ := testSpec(t, "exit")
			if _, err := Start(t.Context(), spec); err == nil {
				t.Error("it started")
			}
		case 2: // given up while it is silent
			spec, _ := testSpec(t, "silent")
			spec.StartTimeout = 20 * time.Millisecond
			if _, err := Start(t.Context(), spec); err == nil {
				t.Error("it started")
			}
		}
	}
	for i := range 3 {
		cycle(i) // whatever is made once is made
	}
	runtime.GC()
	fds, goroutines := descriptors(t), runtime.NumGoroutine()
	for i := range 48 {
		cycle(i)
	}
	runtime.GC()
	if n := descriptors(t); n > fds+3 {
		t.Errorf("%d descriptors became %d", fds, n)
	}
	if n := runtime.NumGoroutine(); n > goroutines+6 {
		t.Errorf("%d goroutines became %d", goroutines, n)
	}
}

// serving starts the plugin program by hand, without a host.
func serving(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	shake := pluginwire.Handshake()
	cmd.Env = append([]string{
		modeEnv + "=serve:", shake.MagicCookieKey + "=" + shake.MagicCookieValue, "PLUGIN_PROTOCOL_VERSIONS=1",
		"PLUGIN_UNIX_SOCKET_DIR=" + t.TempDir(),
	}, env...)
	return cmd
}

// A plugin whose host is another process than its parent has lost its host.
func TestOrphanExits(t *testing.T) {
	cmd := serving(t, pluginwire.EnvHostPID+"=1073741824")
	var out strings.Builder
	cmd.Stderr = &out
	timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(out.String(), "the host is gone") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A program that no host started says what it is.
func TestNoHost(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{modeEnv + "=serve:"}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is a Caisson plugin; a host starts it") {
		t.Errorf("%v: %s", err, out)
	}
}

// SIGTERM lets what is under way finish for a moment.
func TestTermLetsCallsFinish(t *testing.T) {
	p, _ := begin(t, "serve:")
	res := make(chan error, 1)
	go func() {
		got, err := p.Backend().Exec(t.Context(), backend.ExecRequest{Ref: backend.Ref{Config: "c", ID: "s"}, Argv: []string{"term"}})
		if err == nil && string(got.Stdout) != "finished" {
			err = errors.New("it was cut short")
		}
		res <- err
	}()
	if err := <-res; err != nil {
		t.Errorf("the call under way: %v", err)
	}
	await(t, p.Done())
	if exit, _, _ := p.Exit(); exit.Code != 0 {
		t.Errorf("it ended with %v", exit)
	}
}
