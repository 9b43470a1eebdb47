package shell

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/worker"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// The test binary is its own worker.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, WorkerArg) {
		if err := worker.Serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == parentArg {
		fmt.Fprintln(os.Stderr, parent())
		os.Exit(1)
	}
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], hostileArg) {
		hostileWorker(strings.TrimPrefix(os.Args[1], hostileArg))
		return
	}
	goleak.VerifyTestMain(m)
}

// sandbox is a session's directories and the interpreter that runs scripts in
// them.
type sandbox struct {
	t    testing.TB
	in   *Interpreter
	dir  string // host path of /mnt/data
	root *os.Root
	tmp  *os.Root
	// quota of the data directory
	quota *rootfs.Quota
}

// out is what a script left.
type out struct {
	guest.Result
	stdout, stderr string
}

func newInterpreter(t testing.TB, cfg Config) *Interpreter {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Command, cfg.Dir = []string{exe, WorkerArg}, t.TempDir()
	in, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(context.Background()); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(cfg.Dir)
		if err != nil || len(left) > 0 {
			t.Errorf("directories of named pipes are left: %v, %v", left, err)
		}
	})
	return in
}

func newSandbox(t testing.TB, in *Interpreter) *sandbox {
	t.Helper()
	s := &sandbox{t: t, in: in, dir: t.TempDir(), quota: rootfs.NewQuota(rootfs.Limits{Bytes: 64 << 20, Entries: 2000})}
	s.root, s.tmp = openRoot(t, s.dir), openRoot(t, t.TempDir())
	return s
}

func openRoot(t testing.TB, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// program is a script with its arguments.
func (s *sandbox) program(script string, args ...string) guest.Program {
	dir := s.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.sh"), []byte(script), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return guest.Program{
		Argv: append([]string{"bash", guest.EntryDir + "/main.sh"}, args...),
		Data: guest.Mount{Root: s.root, Quota: s.quota}, Tmp: guest.Mount{Root: s.tmp}, Entry: openRoot(s.t, dir),
	}
}

// run runs a program to its end.
func (s *sandbox) run(ctx context.Context, p guest.Program) out {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	if p.Stdout == nil {
		p.Stdout = &stdout
	}
	if p.Stderr == nil {
		p.Stderr = &stderr
	}
	r, err := guest.New(ctx, p, s.in.MinMemoryBytes())
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	res, err := s.in.Run(ctx, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return out{res, stdout.String(), stderr.String()}
}

// script runs a script within a time that no test needs.
func (s *sandbox) script(source string, args ...string) out {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	return s.run(ctx, s.program(source, args...))
}

// expect compares a whole outcome.
func (s *sandbox) expect(o out, code int, stdout, stderr string) {
	s.t.Helper()
	if o.Code != code || o.stdout != stdout || o.stderr != stderr || o.Reason != guest.ReasonExit || o.Err != nil {
		s.t.Errorf("got code %d, reason %s (%v)\n-- stdout:\n%s\n-- stderr:\n%s\nwant code %d\n-- stdout:\n%s\n-- stderr:\n%s",
			o.Code, o.Reason, o.Err, o.stdout, o.stderr, code, stdout, stderr)
	}
}

func (s *sandbox) file(name, content string) {
	s.t.Helper()
	p := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}
