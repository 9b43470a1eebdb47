package main

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

// The test binary is its own plugin; a plugin is told where to keep things.
func TestMain(m *testing.M) {
	if os.Getenv(backend.EnvData) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// TestConformance runs the kit over the boundary that hosts use: a subprocess.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the kit of plugins/e2b runs the same code")
	}
	remotetest.Need(t, "python3")
	backendtest.Run(t, backendtest.Harness{
		Probe:     backendtest.Python("python3"),
		BadConfig: json.RawMessage(`{"template_id":"base","api_url":"https://api.example","sandbox_domain":"sandbox.test"}`),
		Patience:  2 * time.Minute,
		ShortRun:  4 * time.Second,
		New: func(t *testing.T) (backend.Backend, json.RawMessage) {
			s := remotetest.Stand(t, controlfake.Cube, func(o *controlfake.Options) { o.PageSize = 3 })
			return startPlugin(t), remotetest.Config(s, nil)
		},
	})
}

// startPlugin starts this test binary as the plugin that it is.
func startPlugin(t *testing.T) backend.Backend {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(t.Context(), process.Spec{Name: name, Path: exe, Env: []string{backend.EnvData + "=" + t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p.Backend()
}
