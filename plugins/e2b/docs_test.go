package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/plugins/e2b/internal/dialect"
)

// TestExamples: the configurations that docs/e2b.md shows are ones that the server, the
// manifest and the plugin accept.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../docs/examples/e2b/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	m := readManifest(t)
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
			_, err = dialect.Open(name, raw)
		}
		if err != nil || c.Backends[0].Plugin != name {
			t.Errorf("%s, plugin %s: %v", file, c.Backends[0].Plugin, err)
		}
	}
}
