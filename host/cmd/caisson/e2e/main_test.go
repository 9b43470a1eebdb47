// Package e2e drives the caisson binary as its users do: by command line,
// signals and HTTP. It has no code of its own.
package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

// Set by TestMain, constant afterwards.
var (
	binary  string // caisson, built for these tests
	plugins string // what `make build` wrote
	cache   string // compiled interpreters, shared by all tests
	missing string // why nothing can be tested
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "caisson-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if cache = os.Getenv("CAISSON_TEST_CACHE"); cache == "" {
		cache = filepath.Join(dir, "cache")
	}
	if err := errors.Join(os.MkdirAll(cache, 0o700), prepare(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Tests wait for servers and containers more than they compute. -parallel still counts.
	if err := flag.Set("test.parallel", strconv.Itoa(runtime.GOMAXPROCS(0)+1)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// prepare builds the program and looks for the plugins.
func prepare(dir string) error {
	root, err := filepath.Abs(filepath.FromSlash("../../../.."))
	if err != nil {
		return err
	}
	plugins = filepath.Join(root, "bin", "plugins")
	for _, name := range []string{"wasm", "languages", "limits"} {
		if _, err := os.Stat(filepath.Join(plugins, name, "plugin.yaml")); err != nil {
			missing = "bin/plugins/" + name + ` is missing; run "make build packs"`
			return nil
		}
	}
	binary = filepath.Join(dir, "caisson")
	out, err := exec.Command("go", "build", fmt.Sprintf("-race=%t", raceDetector), "-o", binary, root+"/host/cmd/caisson").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build caisson: %w\n%s", err, out)
	}
	return nil
}

// need ends the test with the reason why it cannot run: skipped where somebody
// tries a single package, failed where everything must be there.
func need(t testing.TB) {
	t.Helper()
	switch {
	case missing == "":
	case os.Getenv("CAISSON_CI") != "":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}
