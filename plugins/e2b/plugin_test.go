package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/plugins/e2b/internal/dialect"
	"github.com/caisson-run/caisson/plugins/internal/plugintest"
	"github.com/caisson-run/caisson/plugins/internal/remote"
)

func readManifest(t testing.TB) *manifest.Manifest {
	t.Helper()
	return plugintest.Manifest(t, name, version, capabilities)
}

// TestManifest holds the manifest and the program together.
func TestManifest(t *testing.T) { readManifest(t) }

// TestConfigs: what a config may hold. The manifest and the program agree, and no
// error repeats a value.
func TestConfigs(t *testing.T) {
	m := readManifest(t)
	with := func(member string) string { return `{"api_key":"canary-key","template_id":"base",` + member + `}` }
	for config, want := range map[string]string{ // what an error has to name; empty is right
		`{"api_key":"canary-key","template_id":"base"}`:                  "",
		with(`"template_id":"team/name:tag"`):                            "",
		with(`"api_url":"https://api.example.com:8443/prefix"`):          "",
		with(`"api_url":"http://127.0.0.1:3000","allow_private":true`):   "",
		with(`"languages":[{"id":"py","toolchain":"cpython"}]`):          "",
		with(`"build":{"name":"x","image":"i"}`):                         "",
		`{}`:                                                             "api_key",
		`{"api_key":"canary-key"}`:                                       "template_id",
		`{"template_id":"base"}`:                                         "api_key",
		`{"api_key":7}`:                                                  "api_key",
		with(`"apikey":"canary-key"`):                                    "apikey",
		with(`"api_url":"http://api.example.com"`):                       "api_url",
		with(`"api_url":"http://127.0.0.1:3000"`):                        "api_url",
		with(`"api_url":"https://169.254.169.254","allow_private":true`): "api_url",
		with(`"api_url":"https://u:canary-key@api.example.com"`):         "api_url",
		with(`"api_url":"https://api.example.com/?k=canary-key"`):        "api_url",
		with(`"proxy_url":"https://2130706433","allow_private":true`):    "proxy_url",
		with(`"proxy_url":"https://gw.example.com/path"`):                "gateway",
		with(`"sandbox_domain":"-bad-"`):                                 "sandbox_domain",
		with(`"template_id":"../sandboxes/x"`):                           "template_id",
		with(`"template_id":"a b"`):                                      "template_id",
		with(`"timeout_seconds":-1`):                                     "timeout_seconds",
		with(`"max_timeout_seconds":5`):                                  "max_timeout_seconds",
		with(`"on_timeout":"explode"`):                                   "on_timeout",
		with(`"network":"ajar"`):                                         "network",
		with(`"user":"root; rm"`):                                        "user",
		with(`"ca_certificate":"no pem"`):                                "ca_certificate",
		with(`"languages":[{"id":"py"}]`):                                "languages",
		with(`"build":{"name":"UPPER","image":"i"}`):                     "build",
		with(`"build":{"name":"x"}`):                                     "image",
		with(`"registry_username":"u"`):                                  "registry_password",
		`not json canary-key`:                                            "JSON",
	} {
		_, err := dialect.Open(name, json.RawMessage(config))
		if err == nil { // the data plane has rules of its own
			err = openConfig(t, config)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "canary-key") {
			t.Errorf("%s: the error repeats a value: %v", config, err)
		}
		if want == "" {
			if err := m.ValidateConfig([]byte(config)); err != nil {
				t.Errorf("the manifest refuses %s: %v", config, err)
			}
		}
	}
	complete, err := m.CompleteConfig([]byte(`{"api_key":"canary-key","template_id":"base"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dialect.Open(name, complete); err != nil {
		t.Errorf("with the manifest's defaults, %s: %v", complete, err)
	}
}

func openConfig(t *testing.T, config string) error {
	p := plugin()
	p.Dir = t.TempDir()
	b := remote.New(p)
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	return b.OpenConfig(t.Context(), "main", json.RawMessage(config))
}
