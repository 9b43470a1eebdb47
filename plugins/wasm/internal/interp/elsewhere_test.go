package interp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// What a process that is to compile does in these tests: envAside says.
const (
	envAside    = "CAISSON_TEST_ASIDE"
	envCache    = "CAISSON_TEST_CACHE"
	envDir      = "CAISSON_TEST_DIR" // where the tests run
	asideWell   = "compile"
	asideFails  = "fail"
	asideHangs  = "hang"
	asideIdle   = "do nothing"
	asideAhead  = "hang if nobody waits"
	envEvidence = "CAISSON_TEST_EVIDENCE" // a directory with a file for each process
)

// compileAside is this binary as the process that compiles.
func compileAside(args []string) int {
	name := filepath.Join(os.Getenv(envEvidence), strconv.Itoa(os.Getpid()))
	if err := os.WriteFile(name, []byte(strings.Join(append(args, os.Environ()...), "\n")), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	switch os.Getenv(envAside) {
	case asideFails:
		fmt.Fprintln(os.Stderr, "words for the operator")
		return 1
	case asideHangs:
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 1
	case asideAhead:
		if args[1] == NiceAhead {
			_, _ = io.Copy(io.Discard, os.Stdin)
			return 1
		}
		return 0
	case asideIdle:
		return 0
	}
	if err := os.Chdir(os.Getenv(envDir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	e, err := New(Config{Packs: locatePacks(), CacheDir: os.Getenv(envCache), Parked: -1})
	if err == nil {
		err = errors.Join(e.Warm(context.Background(), args[0]), e.Close(context.Background()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// aside returns an engine with an empty cache whose interpreters are compiled by
// processes that do as told, and the directory with their evidence.
func aside(t *testing.T, what string, warn func(error)) (*Engine, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	evidence, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	e, err := New(Config{
		Packs: locatePacks(), CacheDir: cache, Parked: -1, Compile: []string{exe}, Warn: warn,
		CompileEnv: []string{envAside + "=" + what, envCache + "=" + cache, envEvidence + "=" + evidence, envDir + "=" + dir},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e, evidence
}

// processes has what each process wrote down when it began.
func processes(t *testing.T, evidence string) map[int]string {
	t.Helper()
	out := map[int]string{}
	list, err := filepath.Glob(evidence + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		pid, err := strconv.Atoi(filepath.Base(f))
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[pid] = string(text)
	}
	return out
}

// Two engines, as of two plugins, share a cache: what one has compiled the other
// loads, and what is compiled is compiled by another process, which knows nothing but
// what it is told.
func TestCompiledElsewhere(t *testing.T) {
	need(t, "node")
	t.Setenv("CAISSON_TEST_SECRET", "not for children")
	e, evidence := aside(t, asideWell, func(err error) { t.Error(err) })
	other, err := New(e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := other.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var wg sync.WaitGroup
	for _, e := range []*Engine{e, other} {
		wg.Go(func() {
			if err := e.Warm(context.Background(), "js"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	started := processes(t, evidence)
	for pid, text := range started {
		lines := strings.Split(text, "\n")
		if lines[0] != "js" || lines[1] != NiceFirst || strings.Contains(text, "SECRET") || len(lines) != 7 {
			t.Errorf("process %d: %q", pid, lines)
		}
	}
	if len(started) < 1 || len(started) > 2 {
		t.Errorf("%d processes were started", len(started))
	}
	s := newSandbox(t)
	for _, e := range []*Engine{e, other} {
		s.expect(s.runOn(e, s.program("node", "main.js", "console.log(1)")), 0, "1\n", "")
		if err := e.CacheErr(); err != nil {
			t.Error(err)
		}
	}
	code, err := filepath.Glob(e.cfg.CacheDir + "/*.sum")
	if err != nil || len(code) != 1 {
		t.Errorf("the cache has %v, %v", code, err)
	}
	if left, _ := filepath.Glob(e.cfg.CacheDir + "/caisson-*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A process that fails is not started again at once, its caller learns that it failed
// and nothing else, and the operator all of it.
func TestFailureElsewhere(t *testing.T) {
	need(t, "node")
	var mu sync.Mutex
	var warned []string
	e, evidence := aside(t, asideFails, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		warned = append(warned, err.Error())
	})
	for range 3 {
		err := e.Prepare(t.Context(), "node")
		if !errors.Is(err, ErrCompiling) || strings.Contains(err.Error(), "words") {
			t.Errorf("got %v", err)
		}
	}
	if n := len(processes(t, evidence)); n != 1 {
		t.Errorf("%d processes were started", n)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "words for the operator") {
		t.Errorf("the operator hears %q", warned)
	}
}

// After the pause the next caller has another process started.
func TestFailureIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCompiler(Config{Compile: []string{"/nonexistent"}, CacheDir: "/nonexistent"})
		c.failed["js"] = failure{ErrCompiling, time.Now()}
		time.Sleep(CompilePause - 1)
		if err := c.compile(t.Context(), "js", nil); !errors.Is(err, ErrCompiling) {
			t.Errorf("within the pause: %v", err)
		}
		if err := c.compile(t.Context(), "py", nil); err != nil {
			t.Errorf("another language: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := c.compile(t.Context(), "js", nil); err != nil {
			t.Errorf("after the pause: %v", err)
		}
	})
}

// Where no process can be started the interpreter is compiled here.
func TestCompiledHereAfterAll(t *testing.T) {
	need(t, "node")
	if testing.Short() {
		t.Skip("it compiles an interpreter once more")
	}
	warned := 0
	e, _ := aside(t, asideIdle, func(error) { warned++ })
	e.compiler.command = []string{"/nonexistent"}
	s := newSandbox(t)
	s.expect(s.runOn(e, s.program("node", "main.js", "console.log(1)")), 0, "1\n", "")
	if warned != 1 {
		t.Errorf("%d warnings", warned)
	}
}

// A process that was started ahead and does not get to its end gives way to another
// once somebody waits.
func TestAwaitedCompiling(t *testing.T) {
	e, evidence := aside(t, asideAhead, func(err error) { t.Error(err) })
	if err := os.MkdirAll(e.cfg.CacheDir, 0o700); err != nil {
		t.Fatal(err)
	}
	e.compiler.patience = 10 * time.Millisecond
	awaited, done := make(chan struct{}), make(chan error)
	go func() { done <- e.compiler.compile(context.Background(), "rb", awaited) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for len(processes(t, evidence)) == 0 {
		<-tick.C
	}
	close(awaited)
	if err := <-done; err != nil {
		t.Error(err)
	}
	var nice []string
	for _, text := range processes(t, evidence) {
		nice = append(nice, strings.Split(text, "\n")[1])
	}
	sort.Strings(nice)
	if want := []string{NiceAhead, NiceAwaited}; !slices.Equal(nice, want) {
		t.Errorf("processes of priorities %q, want %q", nice, want)
	}
	if err := e.compiler.compile(context.Background(), "rb", awaited); err != nil || len(processes(t, evidence)) != 3 {
		t.Errorf("when somebody waits already: %v, %d processes", err, len(processes(t, evidence)))
	}
}

// Close ends a process that compiles, and waits for it.
func TestCloseEndsCompiling(t *testing.T) {
	need(t, "node")
	e, evidence := aside(t, asideHangs, func(err error) { t.Error(err) })
	got := make(chan error, 1)
	go func() { got <- e.Warm(context.Background(), "js") }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var started map[int]string
	for len(started) == 0 {
		<-tick.C
		started = processes(t, evidence)
	}
	if err := e.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("who waited got %v", err)
	}
	for pid := range started {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}
