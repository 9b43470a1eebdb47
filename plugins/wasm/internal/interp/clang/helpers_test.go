package clang

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/wasm/internal/codecache"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/testcache"
)

// shared is the toolchain of all tests, loaded by the first that needs it. Its cache
// outlives the tests, since to compile the compiler takes half a minute.
var shared *Toolchain

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(closing{m})
}

type closing struct{ m *testing.M }

func (c closing) Run() int {
	code := c.m.Run()
	if shared != nil {
		_ = shared.Close(context.Background())
	}
	return code
}

const packsDir = "../../../packs"

// toolchain returns the shared toolchain, or skips the test.
func toolchain(t testing.TB) *Toolchain {
	t.Helper()
	if raceEnabled && testing.Short() {
		t.Skip("compiling the compiler takes minutes with the race detector")
	}
	if shared != nil {
		return shared
	}
	set := packs.Locate(packsDir)
	if err := set.Check(packs.Clang); err != nil {
		if os.Getenv("CAISSON_CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	shared = New(Config{
		Read:  func(name string) ([]byte, error) { return set.ReadPart(packs.Clang, name) },
		Cache: codecache.Cache{Dir: testcache.Dir()},
	})
	if err := shared.Prepare(t.Context(), CommandC); err != nil {
		t.Fatal(err)
	}
	return shared
}

// sandbox has the directories of runs.
type sandbox struct {
	t                testing.TB
	data, entry, tmp string
}

func newSandbox(t testing.TB) *sandbox {
	return &sandbox{t, t.TempDir(), t.TempDir(), t.TempDir()}
}

func (s *sandbox) root(dir string) *os.Root {
	r, err := os.OpenRoot(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = r.Close() })
	return r
}

func (s *sandbox) write(dir, name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// out is the outcome of a run with what it wrote.
type out struct {
	guest.Result
	stdout, stderr string
}

// exec runs one command; change may change the program.
func (s *sandbox) exec(ctx context.Context, change func(*guest.Program), argv ...string) out {
	s.t.Helper()
	var stdout, stderr bytes.Buffer
	p := guest.Program{
		Argv: argv, Stdout: &stdout, Stderr: &stderr,
		Data: guest.Mount{Root: s.root(s.data)}, Tmp: guest.Mount{Root: s.root(s.tmp)}, Entry: s.root(s.entry),
	}
	if change != nil {
		change(&p)
	}
	r, err := guest.New(ctx, p, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	res, err := toolchain(s.t).Run(ctx, r)
	if err != nil {
		s.t.Fatal(err)
	}
	return out{res, stdout.String(), stderr.String()}
}

// What plans of the language table ask for.
var (
	buildC   = []string{"clang", "-O2", "-std=gnu17", "-I", "/mnt/data", "-o", "/run/caisson/main", "/run/caisson/main.c", "-lm", "-pthread"}
	buildCPP = []string{"clang++", "-O2", "-std=gnu++20", "-I", "/mnt/data", "-o", "/run/caisson/main", "/run/caisson/main.cpp", "-lm", "-pthread"}
)

// compile compiles source as C, or as C++ if cpp is set.
func (s *sandbox) compile(cpp bool, source string) out {
	s.t.Helper()
	file, argv := "main.c", buildC
	if cpp {
		file, argv = "main.cpp", buildCPP
	}
	s.write(s.entry, file, source)
	return s.exec(s.t.Context(), nil, argv...)
}

// run compiles and runs source; to compile it must work.
func (s *sandbox) run(cpp bool, source string, change func(*guest.Program), args ...string) out {
	s.t.Helper()
	if o := s.compile(cpp, source); o.Code != 0 || o.Reason != guest.ReasonExit {
		s.t.Fatalf("compile: code %d, %s, %v, stderr:\n%s", o.Code, o.Reason, o.Err, o.stderr)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	return s.exec(ctx, change, append([]string{"/run/caisson/main"}, args...)...)
}
