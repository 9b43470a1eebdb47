package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/sdk/backend"
)

type jsonRaw = json.RawMessage

// logBuffer collects log lines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func testSpec(t *testing.T, mode string) (Spec, *logBuffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	logs := &logBuffer{}
	root, err := os.MkdirTemp("", "c")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := os.ReadDir(root)
		if err != nil || len(left) > 0 {
			t.Errorf("left in the socket root: %v %v", left, err)
		}
		os.RemoveAll(root)
	})
	return Spec{
		Name: "test", Path: exe, SocketRoot: root,
		Env: []string{modeEnv + "=" + mode},
		Log: hclog.New(&hclog.LoggerOptions{Output: logs, Level: hclog.Debug}),
	}, logs
}

// begin starts a plugin and stops it with the test.
func begin(t *testing.T, mode string) (*Process, *logBuffer) {
	t.Helper()
	spec, logs := testSpec(t, mode)
	p, err := Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		wantGone(t, p.PID())
		<-p.Done()
		if slices.ContainsFunc(p.Lines(), func(line string) bool { return strings.Contains(line, "DATA RACE") }) {
			t.Error("the plugin has a race")
		}
		if t.Failed() {
			t.Logf("the plugin %s; its log: %q", p.ExitCause(), p.Lines())
		}
	})
	return p, logs
}

// wantGone fails unless the process ends soon.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	if n != 1 {
		t.Errorf("process %d still lives: %v", pid, err)
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("still not done")
	}
}

func execute(t *testing.T, p *Process, command string) (backend.ExecResult, error) {
	t.Helper()
	return p.Backend().Exec(t.Context(), backend.ExecRequest{Ref: backend.Ref{Config: "c", ID: "s"}, Argv: []string{command}})
}

func TestStartAndStop(t *testing.T) {
	p, logs := begin(t, "serve:")
	info, err := p.Backend().Info(t.Context())
	if err != nil || info.Name != "test" || info.Version != "1.0.0" {
		t.Fatalf("Info = %+v, %v", info, err)
	}
	res, err := execute(t, p, "pid")
	if err != nil || res.ExitCode != p.PID() {
		t.Errorf("pid %d, want %d: %v", res.ExitCode, p.PID(), err)
	}
	if pgid, err := syscall.Getpgid(p.PID()); err != nil || pgid != p.PID() {
		t.Errorf("process group %d of %d: %v", pgid, p.PID(), err)
	}
	if _, _, ok := p.Exit(); ok || p.ExitCause() != "" {
		t.Error("it runs and has an exit")
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, _, ok := p.Exit(); !ok || exit.Code != 0 {
		t.Errorf("an orderly stop ended with %v (%s)\n%s", exit, p.ExitCause(), logs)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if _, err := p.Backend().Info(t.Context()); backend.KindOf(err) != backend.KindUnavailable || backend.ProvesGone(err) {
		t.Errorf("a call to a stopped plugin: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name string, mode os.FileMode, content string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name, mode string
		change     func(*Spec)
		want       []string
	}{
		{name: "no name", change: func(s *Spec) { s.Name = "" }, want: []string{"name and path are required"}},
		{name: "missing", change: func(s *Spec) { s.Path = dir + "/absent" }, want: []string{"absent: no such file"}},
		{name: "directory", change: func(s *Spec) { s.Path = dir }, want: []string{"not a regular file"}},
		{name: "not executable", change: func(s *Spec) { s.Path = file("plain", 0o644, "x") }, want: []string{"plain: not executable", "chmod +x"}},
		{name: "writable by others", change: func(s *Spec) { s.Path = file("open", 0o777, "x") }, want: []string{"lets others write", "chmod go-w"}},
		{name: "no program", change: func(s *Spec) { s.Path = file("text", 0o755, "hello") }, want: []string{"execute", "text", "exec format error"}},
		{name: "no interpreter", change: func(s *Spec) { s.Path = file("script", 0o755, "#!/no/such/interpreter\n") }, want: []string{"execute", "loader or interpreter is missing"}},
		{name: "truncated", change: func(s *Spec) {
			b, err := os.ReadFile(exe)
			if err != nil {
				t.Fatal(err)
			}
			s.Path = file("cut", 0o755, string(b[:4096]))
		}, want: []string{"plugin \"test\": start: "}},
		{name: "wrong digest", change: func(s *Spec) { s.SHA256 = strings.Repeat("0", 64) }, want: []string{"digest is", "not the pinned 000"}},
		{name: "long socket root", change: func(s *Spec) { s.SocketRoot = "/" + strings.Repeat("d", 200) }, want: []string{"socket directory", "230 bytes", "allows 107", "at most 78"}},
		{name: "no socket root", change: func(s *Spec) { s.SocketRoot = dir + "/absent" }, want: []string{"socket directory"}},
		{name: "bad variable", change: func(s *Spec) { s.Env = append(s.Env, "NOVALUE") }, want: []string{"NOVALUE", "not NAME=value"}},
		{name: "reserved variable", change: func(s *Spec) { s.Env = append(s.Env, "PLUGIN_MIN_PORT=1") }, want: []string{"PLUGIN_MIN_PORT is reserved"}},
		{name: "exits", mode: "exit", want: []string{"exited with status 3 before it was ready", "cannot find its engine"}},
		{name: "panics", mode: "panic", want: []string{"exited with status 2 before it was ready", "its last words: panic: before the handshake"}},
		{name: "slow", mode: "silent", change: func(s *Spec) { s.StartTimeout = 300 * time.Millisecond }, want: []string{"not ready within 300ms"}},
		{name: "garbage", mode: "garbage", want: []string{"is it a Caisson plugin?", "line 0 of something else"}},
		{name: "endless line", mode: "endless", change: func(s *Spec) { s.StartTimeout = 300 * time.Millisecond }, want: []string{"not ready"}},
		{name: "refuses", mode: "serve:refuse", want: []string{"exited with status 1", "its last words: cannot open the backend: no licence"}},
		{name: "promises too much", mode: "serve:overpromise", want: []string{"exited with status 1", "declared but not implemented"}},
		{name: "newer protocol", mode: "handshake:1|2|unix|/tmp/x|grpc|", want: []string{"version 2 of the backend protocol", "upgrade the host"}},
		{name: "older protocol", mode: "handshake:1|0|unix|/tmp/x|grpc|", want: []string{"upgrade the plugin"}},
		{name: "other handshake", mode: "handshake:2|1|unix|/tmp/x|grpc|", want: []string{"version 2 of go-plugin's handshake"}},
		{name: "net/rpc", mode: "handshake:1|1|unix|/tmp/x|netrpc|", want: []string{"speaks \"netrpc\""}},
		{name: "tcp", mode: "handshake:1|1|tcp|127.0.0.1:1|grpc|", want: []string{"not on a unix socket"}},
		{name: "a socket of others", mode: "handshake:1|1|unix|/var/run/docker.sock|grpc|", want: []string{"not listen in the directory it was given"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, logs := testSpec(t, c.mode)
			if c.mode == "" {
				spec.Env = []string{modeEnv + "=serve:"}
			}
			if c.change != nil {
				c.change(&spec)
			}
			p, err := Start(t.Context(), spec)
			if err == nil {
				_ = p.Stop(context.Background())
				t.Fatal("it started")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q\n%s", err, w, logs)
				}
			}
		})
	}
}

// Check says before a start what the start would say.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "plugin")
	if err := os.WriteFile(path, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	const sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of "x"
	for _, c := range []struct {
		name      string
		mode      os.FileMode
		sum       string
		why, mend string
	}{
		{name: "right", mode: 0o755, sum: sum},
		{name: "not pinned", mode: 0o700},
		{name: "writable by others", mode: 0o757, sum: sum, why: "lets others write it", mend: "chmod go-w " + path},
		{name: "writable by the group", mode: 0o775, sum: sum, why: "lets others write it", mend: "chmod go-w " + path},
		{name: "not executable", mode: 0o644, sum: sum, why: "not executable", mend: "chmod +x " + path},
		{name: "replaced", mode: 0o755, sum: strings.Repeat("0", 64), why: "not the pinned 000"},
	} {
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		err := Check(t.Context(), path, c.sum)
		if c.why == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var fe *FileError
		if !errors.As(err, &fe) || !strings.Contains(fe.Reason, c.why) || !strings.Contains(fe.Fix, c.mend) {
			t.Errorf("%s: %v, want %q and %q", c.name, err, c.why, c.mend)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), filepath.Join(dir, "pipe"), ""); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a named pipe: %v", err)
	}
}

func TestCheckPlace(t *testing.T) {
	dir := t.TempDir()
	for mode, ok := range map[os.FileMode]bool{0o755: true, 0o700: true, 0o775: false, 0o777: false, 0o757: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := CheckPlace(dir); (err == nil) != ok {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a file away
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(dir, 12345, -1)); err != nil {
		t.Fatal(err)
	}
	if err := CheckPlace(dir); err == nil || !strings.Contains(err.Error(), "owned by user 12345") {
		t.Errorf("a directory of another user: %v", err)
	}
}

func TestStartEndsWithItsContext(t *testing.T) {
	spec, _ := testSpec(t, "silent")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := Start(ctx, spec); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
}

func TestLifeIsNotThatOfTheStart(t *testing.T) {
	spec, _ := testSpec(t, "serve:")
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(context.Background())
	cancel()
	if _, err := p.Backend().Info(t.Context()); err != nil {
		t.Errorf("after the start's context ended: %v", err)
	}
}

func TestEnvironmentIsAnAllowList(t *testing.T) {
	t.Setenv("HOST_SECRET", "hunter2")
	spec, _ := testSpec(t, "serve:")
	spec.Env = append(spec.Env, "LISTED=yes")
	p, err := Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(context.Background())
	h, err := p.Backend().Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for kv := range strings.SplitSeq(h.Reason, "\n") {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	want := []string{
		"CAISSON_PLUGIN", "CAISSON_PLUGIN_HOST_PID", "CAISSON_PLUGIN_LOG_LEVEL", modeEnv, "LISTED",
		"PLUGIN_MAX_PORT", "PLUGIN_MIN_PORT", "PLUGIN_PROTOCOL_VERSIONS", "PLUGIN_UNIX_SOCKET_DIR",
	}
	if !slices.Equal(names, want) {
		t.Errorf("environment %q, want %q", names, want)
	}
}

// What is executed is the file whose digest was checked.
func TestSwappedPathDoesNotWin(t *testing.T) {
	spec, _ := testSpec(t, "serve:")
	b, err := os.ReadFile(spec.Path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	spec.SHA256 = hex.EncodeToString(sum[:])
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	spec.Path = path
	bin, err := openBinary(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer bin.close()
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho swapped\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Env = []string{modeEnv + "=exit"}
	var out logBuffer
	c, err := spawn(cmd, bin, newSplitter(func(l []byte) { out.Write(l) }), newSplitter(func([]byte) {}), nil)
	if err != nil {
		t.Fatal(err)
	}
	await(t, c.exited)
	if e := c.exit(); e.Code != 3 || out.String() != "" {
		t.Errorf("the swapped program ran: %v %q", e, out.String())
	}
}

func TestScriptsRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho from a script >&2\nexit 4\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	spec, _ := testSpec(t, "")
	spec.Path = path
	if _, err := Start(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "status 4") || !strings.Contains(err.Error(), "from a script") {
		t.Errorf("err = %v", err)
	}
}
