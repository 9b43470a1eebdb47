package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/plugins/cube/internal/dialect"
	"github.com/caisson-run/caisson/plugins/internal/plugintest"
)

// TestManifest holds the manifest and the program together.
func TestManifest(t *testing.T) { readManifest(t) }

func readManifest(t testing.TB) *manifest.Manifest {
	t.Helper()
	return plugintest.Manifest(t, name, version, capabilities)
}

// TestConfigs: what this provider asks of a config beyond what all do, in the manifest
// and in the program.
func TestConfigs(t *testing.T) {
	m := readManifest(t)
	const base = `{"api_url":"https://api.example.com","proxy_url":"https://gw.example.com","sandbox_domain":"cube.app","template_id":"t"`
	for config, want := range map[string]string{
		base + `}`: "",
		base + `,"build":{"name":"x","image":"i","dns":["9.9.9.9"],"disk":"20G"}}`: "",
		`{"template_id":"t"}`: "api_url proxy_url sandbox_domain",
		base + `,"build":{"name":"x","image":"i","dns":["dns.example.com"]}}`: "dns[0]",
		base + `,"build":{"name":"x","image":"i","disk":"huge"}}`:             "disk",
		base + `,"max_timeout_seconds":60}`:                                   "max_timeout_seconds",
	} {
		_, err := dialect.Open(name, json.RawMessage(config))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
		if err := m.ValidateConfig([]byte(config)); (err == nil) != (want == "") && !strings.Contains(want, "dns") {
			t.Errorf("the manifest says %v of %s", err, config)
		}
	}
	complete, err := m.CompleteConfig([]byte(base + `}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dialect.Open(name, complete); err != nil {
		t.Errorf("with the manifest's defaults, %s: %v", complete, err)
	}
}
