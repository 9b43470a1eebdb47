package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/typescript"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
	"go.uber.org/goleak"
)

// The test binary is its own plugin; a plugin is told where to keep things.
func TestMain(m *testing.M) {
	if os.Getenv(backend.EnvData) != "" || slices.Contains(os.Args, typescript.HelperArg) {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// packsDir is where npm puts the interpreters of this source tree.
const packsDir = "packs"

func needPacks(t *testing.T) {
	t.Helper()
	set := packs.Locate(packsDir)
	for _, p := range set.Packs() {
		if !p.Core {
			continue
		}
		if err := set.Check(p.Name); err != nil {
			t.Skip(err)
		}
	}
}

// cacheDir is shared by the tests of this tree: compiling takes seconds.
func cacheDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "caisson-test-cache")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

var kit = backendtest.Harness{
	BadConfig: json.RawMessage(`{"max_sandboxes":-1}`),
	// Interpreting megabytes of source takes a while on a busy machine.
	Patience: 3 * time.Minute,
	// Two programs have to start within it, on a machine that does other things.
	ShortRun: 4 * time.Second,
	Skip: map[string]string{
		"refused/links":                "programs cannot make links that lead out; see TestLinksLeadNowhere of package embedded",
		"refused/links_to_directories": "programs cannot make links that lead out; see TestLinksLeadNowhere of package embedded",
		"refused/links_in_inputs":      "programs cannot make links that lead out; see TestLinksLeadNowhere of package embedded",
		"run/directory":                "programs start in the data directory, anything else is refused",
		"run/program_gone":             "every program sees its own source under the same path",
	},
}

// TestConformance runs the kit over the boundary that hosts use: a subprocess.
func TestConformance(t *testing.T) {
	needPacks(t)
	for name, probe := range map[string]backendtest.Probe{
		"python": backendtest.Python("python3"),
		"js":     backendtest.JavaScript("qjs"),
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "js" {
				t.Skip("one language is enough in short mode")
			}
			h := kit
			h.Probe = probe
			h.New = startPlugin
			backendtest.Run(t, h)
		})
	}
}

// startPlugin starts this test binary as the plugin that it is.
func startPlugin(t *testing.T) (backend.Backend, json.RawMessage) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Abs(packsDir)
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(t.Context(), process.Spec{
		Name: "wasm", Path: exe,
		Env: []string{backend.EnvData + "=" + t.TempDir(), backend.EnvCache + "=" + cacheDir(t), envPacks + "=" + packs},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p.Backend(), json.RawMessage(`{}`)
}
