package interp

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
)

// envBuilt lets the tests of this package use the packs that were built on this
// machine. Without it they use those that everybody has.
const envBuilt = "CAISSON_TEST_BUILT"

func locatePacks() *packs.Set {
	s := packs.Locate(packDir)
	if os.Getenv(envBuilt) == "" {
		return s.Fetched()
	}
	return s
}

// TestBuiltPython runs the tests of Python again with the CPython that was built here. Building
// takes minutes, so that they are skipped where nobody did.
func TestBuiltPython(t *testing.T) {
	if os.Getenv(envBuilt) != "" {
		t.Skip("this is the run with the built pack")
	}
	set := packs.Locate(packDir)
	if err := set.Rejected(); err != nil {
		t.Fatal(err)
	}
	if set.Built(packs.CPython) == nil {
		t.Skip(`not built; run "make cpython"`)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.run=Python|SQL|Fuel|RunsAreTheSame|^TestLanguage/^(py|sql)$"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(os.Environ(), envBuilt+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestPythonHello")) {
		t.Errorf("%v\n%s", err, out)
	}
}
