package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/typescript"
	"github.com/caisson-run/caisson/plugins/wasm/internal/packs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/testcache"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

// The test binary is its own plugin; a plugin is told where to keep things.
func TestMain(m *testing.M) {
	if os.Getenv(backend.EnvData) != "" || slices.ContainsFunc(os.Args, isTask) {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// isTask reports whether an argument is one of those with which the plugin starts itself.
func isTask(arg string) bool {
	return slices.Contains([]string{typescript.HelperArg, shell.WorkerArg, interp.CompileArg}, arg)
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
			if os.Getenv("CAISSON_CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
}

var kit = backendtest.Harness{
	BadConfig: json.RawMessage(`{"max_sandboxes":-1}`),
	// Interpreting megabytes of source takes a while on a busy machine.
	Patience: 3 * time.Minute,
	// Two programs have to start within it, on a machine that does other things.
	ShortRun: 2 * time.Second,
	// As in plugin.yaml. Links that lead out: TestLinksLeadNowhere of package embedded.
	Lacks: []backendtest.Lack{backendtest.LackLinksOut, backendtest.LackDirectories},
}

// TestConformance runs the kit over the boundary that hosts use: a subprocess.
func TestConformance(t *testing.T) {
	needPacks(t)
	for name, probe := range map[string]backendtest.Probe{
		"python": backendtest.Python("python3"),
		"js":     javaScript(),
		"bash":   backendtest.Shell("bash"),
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

// javaScript is a probe that opens the control channel: it is a file here.
func javaScript() backendtest.Probe {
	p := backendtest.JavaScript("qjs")
	p.Calls = backendtest.ChannelCalls
	return p
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
		Env: []string{backend.EnvData + "=" + t.TempDir(), backend.EnvCache + "=" + testcache.Dir(), envPacks + "=" + packs},
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

// TestConformanceInProcess runs the kit without a process between: first at the
// backend itself, then over the wire alone. What fails here is the backend's or the
// wire's fault and not the process runtime's.
func TestConformanceInProcess(t *testing.T) {
	needPacks(t)
	if testing.Short() {
		t.Skip("the kit over a subprocess is enough in short mode")
	}
	for name, new := range map[string]func(t *testing.T) (backend.Backend, json.RawMessage){
		"direct": openHere, "wire": openOverWire,
	} {
		t.Run(name, func(t *testing.T) {
			h := kit
			h.Probe = javaScript()
			h.New = new
			backendtest.Run(t, h)
		})
	}
}

// openHere opens the backend as the plugin does.
func openHere(t *testing.T) (backend.Backend, json.RawMessage) {
	packs, err := filepath.Abs(packsDir)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(backend.EnvData, t.TempDir())
	t.Setenv(backend.EnvCache, testcache.Dir())
	t.Setenv(envPacks, packs)
	b, err := open(t.Context(), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.(plugin).Close(); err != nil {
			t.Error(err)
		}
	})
	return b, json.RawMessage(`{}`)
}

// openOverWire puts the protocol between the kit and the backend.
func openOverWire(t *testing.T) (backend.Backend, json.RawMessage) {
	b, config := openHere(t)
	return backendtest.OverWire(t, b), config
}
