// Package plugintest is what the tests of the plugins of remote providers share that
// stands on more than a plugin may: the manifest, the runtime that starts plugins, the
// server's configuration.
package plugintest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
	"github.com/caisson-run/caisson/runtimes/process"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

// Main lets a test binary be its own plugin: a plugin is told where to keep things, and
// a test is not. Otherwise it runs the tests.
func Main(plugin func(), tests func()) {
	if os.Getenv(backend.EnvData) != "" {
		plugin()
		return
	}
	tests()
}

// Start starts this test binary as the plugin that it is.
func Start(t *testing.T, name string) backend.Backend {
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

// Conformance runs the kit over the boundary that hosts use: a subprocess, on a
// provider of its own. badConfig is one that the plugin refuses.
func Conformance(t *testing.T, name string, provider controlfake.Provider, badConfig string) {
	remotetest.Need(t, "python3")
	backendtest.Run(t, backendtest.Harness{
		Probe:     backendtest.Python("python3"),
		BadConfig: json.RawMessage(badConfig),
		Patience:  2 * time.Minute,
		ShortRun:  4 * time.Second,
		New: func(t *testing.T) (backend.Backend, json.RawMessage) {
			s := remotetest.Stand(t, provider, func(o *controlfake.Options) { o.PageSize = 3 })
			return Start(t, name), remotetest.Config(s, nil)
		},
	})
}

// Manifest reads the plugin's manifest and holds it and the program together.
func Manifest(t testing.TB, name, version string, capabilities []backend.Capability) *manifest.Manifest {
	t.Helper()
	text, err := os.ReadFile("plugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m, err := manifest.Parse("plugin.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != name || m.Version != version {
		t.Errorf("the manifest is of %s %s, the program of %s %s", m.Name, m.Version, name, version)
	}
	var caps []string
	for _, c := range capabilities {
		caps = append(caps, string(c))
	}
	slices.Sort(caps)
	if granted := slices.Sorted(slices.Values(m.Capabilities)); !slices.Equal(caps, granted) {
		t.Errorf("capabilities %v, in the manifest %v", caps, granted)
	}
	return m
}

// Examples are the configurations that the plugin's page shows: they are ones that the
// server, the manifest and the plugin accept.
func Examples(t *testing.T, m *manifest.Manifest, open func(raw json.RawMessage) error) {
	files, err := filepath.Glob("../../docs/examples/" + m.Name + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := config.Parse(file, text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for name := range f.Backends[0].Secrets {
			f.Backends[0].Secrets[name] = config.Secret{Env: "SECRET"}
		}
		c, err := f.Host(func(string) (string, bool) { return "secret", true })
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		raw, err := m.CompleteConfig(c.Backends[0].Config)
		if err == nil {
			err = open(raw)
		}
		if err != nil || c.Backends[0].Plugin != m.Name {
			t.Errorf("%s, plugin %s: %v", file, c.Backends[0].Plugin, err)
		}
	}
}
