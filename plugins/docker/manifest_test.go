package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
)

// TestManifest: plugin.yaml and the program agree on the version, on what the program
// can do, and on what a config that says nothing more means.
func TestManifest(t *testing.T) {
	m, err := manifest.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	b := openBackend(t, t.TempDir(), false, nil)
	defer closeBackend(t, b)
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m.Version != version || m.Name != info.Name || m.Version != info.Version || !slices.Equal(m.StateSchema, info.StateSchema) {
		t.Errorf("plugin.yaml says %s %s, the program %+v", m.Name, m.Version, info)
	}
	for _, c := range info.Capabilities {
		if !m.AllowsCapability(string(c)) {
			t.Errorf("plugin.yaml does not grant %s", c)
		}
	}
	raw, err := m.CompleteConfig([]byte(`{"enabled":true}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := settings.Parse(raw)
	if err != nil {
		t.Fatalf("the completed config %s: %v", raw, err)
	}
	got.Images = nil
	want := settings.Default()
	want.Enabled = true
	a, _ := json.Marshal(got)
	z, _ := json.Marshal(want)
	if string(a) != string(z) {
		t.Errorf("plugin.yaml's defaults are\n%s\nthe program's\n%s", a, z)
	}
	if err := m.ValidateConfig([]byte(`{}`)); err == nil {
		t.Error("plugin.yaml accepts a config that does not say enabled")
	}
}
