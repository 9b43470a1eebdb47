package wasm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/sdk/guest/guesttest"
)

// cacheDir is shared by all tests, so that each guest is compiled once, and with
// CAISSON_TEST_CACHE by all runs: the race detector makes compiling take minutes.
var cacheDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "wasm-cache-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cacheDir = dir
	if shared := os.Getenv("CAISSON_TEST_CACHE"); shared != "" {
		cacheDir = filepath.Join(shared, "modules")
		if err := os.MkdirAll(cacheDir, 0o700); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// goGuest builds a guest below testdata/guests, once per run of the tests.
func goGuest(tb testing.TB, name string) []byte {
	tb.Helper()
	builds.Lock()
	defer builds.Unlock()
	if b, ok := builds.done[name]; ok {
		return b
	}
	b, err := guesttest.Build(context.Background(), "testdata/guests/"+name)
	if err != nil {
		tb.Fatal(err)
	}
	builds.done[name] = b
	return b
}

var builds = struct {
	sync.Mutex
	done map[string][]byte
}{done: map[string][]byte{}}

func asGuest(tb testing.TB) []byte {
	tb.Helper()
	b, err := os.ReadFile("testdata/assemblyscript/policy.wasm")
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// probeSpec is for the guest testdata/guests/probe.
func probeSpec(tb testing.TB) Spec {
	return Spec{Name: "probe", Module: goGuest(tb, "probe"), WASI: true, Imports: []string{"log", "now_ms", "rand"}}
}

// mustLoad loads spec with two instances unless it says otherwise, and closes it
// when the test ends.
func mustLoad(tb testing.TB, spec Spec, stop stopper) *Module {
	tb.Helper()
	if spec.Limits.Instances == 0 {
		spec.Limits.Instances = 2
	}
	if spec.Limits.Timeout == 0 {
		spec.Limits.Timeout = time.Minute // tests of time limits set one
	}
	if spec.CacheDir == "" {
		spec.CacheDir = cacheDir
	}
	if spec.Log == nil {
		spec.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: tb.Output()})
	}
	m, err := load(context.Background(), spec, stop)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { mustClose(tb, m) })
	return m
}

func mustClose(tb testing.TB, m *Module) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		tb.Error(err)
	}
}

// mustCall calls and returns the reply as a string.
func mustCall(tb testing.TB, m *Module, op uint32, in string) string {
	tb.Helper()
	out, err := m.Call(context.Background(), op, []byte(in), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return string(out)
}
