package interp

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/worker"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/typescript"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/testcache"
)

// packDir is where `make packs` installs.
const packDir = "../../packs"

// shared is the engine of all tests, so that each interpreter is compiled once.
var shared *Engine

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == shell.WorkerArg {
		if err := worker.Serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 2 && os.Args[1] == typescript.HelperArg {
		if err := typescript.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) > 2 && os.Args[1] == CompileArg {
		os.Exit(compileAside(os.Args[2:]))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	exe, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	helper := []string{exe, typescript.HelperArg}
	if shared, err = New(Config{Packs: locatePacks(), CacheDir: testcache.Dir(), TypeScript: helper, Shell: []string{exe, shell.WorkerArg}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// sandbox is one session's directories and the programs run in it.
type sandbox struct {
	t    testing.TB
	data string // host path of /mnt/data
	root *os.Root
}

// out is what a run left.
type out struct {
	Result
	stdout, stderr string
}

// need skips the test when the pack of the interpreter is not installed; where
// everything must be there it fails.
func need(t testing.TB, interpreter string) {
	t.Helper()
	for _, l := range shared.Languages() {
		if l.Interpreter == interpreter && raceEnabled && testing.Short() && optional(l.Pack) {
			t.Skip("compiling this interpreter takes minutes with the race detector; it was tested without")
		}
		if l.Interpreter == interpreter && l.Missing != "" {
			if os.Getenv("CAISSON_CI") != "" {
				t.Fatal(l.Missing)
			}
			t.Skip(l.Missing)
		}
	}
}

// optional reports whether a pack is one that has to be asked for.
func optional(pack string) bool {
	return slices.ContainsFunc(packs.Table(), func(p packs.Pack) bool { return p.Name == pack && !p.Core })
}

func newSandbox(t testing.TB) *sandbox {
	t.Helper()
	s := &sandbox{t: t, data: t.TempDir()}
	s.root = openRoot(t, s.data)
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

// program returns a Program for source with the entry file name. stdout and
// stderr are to be set by the caller.
func (s *sandbox) program(interpreter, file, source string, args ...string) Program {
	s.t.Helper()
	dir := s.t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(source), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return Program{
		Argv:  append([]string{interpreter, EntryDir + "/" + file}, args...),
		Data:  Mount{Root: s.root},
		Tmp:   Mount{Root: openRoot(s.t, s.t.TempDir())},
		Entry: openRoot(s.t, dir),
	}
}

// newEngine returns an engine of the test's own. It shares the code cache.
func newEngine(t testing.TB, cfg Config) *Engine {
	t.Helper()
	cfg.Packs = locatePacks()
	if cfg.CacheDir == "" {
		cfg.CacheDir = shared.cfg.CacheDir
	}
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// run runs p and fails the test if it did not start.
func (s *sandbox) run(ctx context.Context, p Program) out {
	s.t.Helper()
	return s.on(ctx, shared, p)
}

// runOn is run on another engine.
func (s *sandbox) runOn(e *Engine, p Program) out {
	s.t.Helper()
	return s.on(context.Background(), e, p)
}

func (s *sandbox) on(ctx context.Context, e *Engine, p Program) out {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	if p.Stdout == nil {
		p.Stdout = &stdout
	}
	if p.Stderr == nil {
		p.Stderr = &stderr
	}
	res, err := e.Run(ctx, p)
	if err != nil {
		s.t.Fatal(err)
	}
	return out{res, stdout.String(), stderr.String()}
}

// file writes a file into /mnt/data from outside.
func (s *sandbox) file(name, content string) {
	s.t.Helper()
	p := filepath.Join(s.data, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// content reads a file of /mnt/data from outside.
func (s *sandbox) content(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.data, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// expect compares a whole outcome.
func (s *sandbox) expect(o out, code int, stdout, stderr string) {
	s.t.Helper()
	if o.Code != code || o.stdout != stdout || o.stderr != stderr || o.Reason != ReasonExit || o.OutputErr != nil {
		s.t.Errorf("got code %d, reason %s (%v)\n-- stdout:\n%s\n-- stderr:\n%s\nwant code %d\n-- stdout:\n%s\n-- stderr:\n%s",
			o.Code, o.Reason, o.Err, o.stdout, o.stderr, code, stdout, stderr)
	}
}
