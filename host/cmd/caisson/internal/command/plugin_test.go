package command

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host"
)

// install writes a plugin directory. Where pin is set the manifest carries the
// digest of other content than the artifact's if that is "wrong", else of its.
func install(t *testing.T, dir, name, kind, pin string, mode os.FileMode) {
	t.Helper()
	sub := filepath.Join(dir, name)
	if err := os.MkdirAll(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	content := "artifact of " + name
	if kind != "backend" {
		content = emptyModule
	}
	if err := os.WriteFile(filepath.Join(sub, "artifact"), []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	runtime := "wasm"
	if kind == "backend" {
		runtime = "process"
	}
	text := fmt.Sprintf("schema: 1\nname: %s\nversion: 1.2.3\nkind: %s\nruntime: %s\nprotocol: [1]\npath: artifact\n", name, kind, runtime)
	if pin != "" {
		sum := sha256.Sum256([]byte(strings.Replace(pin, "right", content, 1)))
		text += "sha256: " + hex.EncodeToString(sum[:]) + "\n"
	}
	if err := os.WriteFile(filepath.Join(sub, "plugin.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// emptyModule has all exports of a policy and imports nothing.
const emptyModule = "\x00asm\x01\x00\x00\x00" +
	"\x01\x11\x03\x60\x00\x01\x7f\x60\x01\x7f\x01\x7f\x60\x03\x7f\x7f\x7f\x01\x7e" + // types
	"\x03\x04\x03\x00\x01\x02" + "\x05\x03\x01\x00\x01" + // functions, memory
	"\x07\x29\x04\x06memory\x02\x00\x0babi_version\x00\x00\x05alloc\x00\x01\x06handle\x00\x02" +
	"\x0a\x12\x03\x06\x00\x41\x80\x80\x04\x0b\x04\x00\x41\x08\x0b\x04\x00\x42\x00\x0b"

// installed is a directory with one plugin for every way to be right or wrong.
func installed(t *testing.T) (exe, plugins string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	exe, plugins = filepath.Join(dir, "caisson"), filepath.Join(dir, "plugins")
	if err := os.WriteFile(exe, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	install(t, plugins, "wasm", "backend", "right", 0o755)
	install(t, plugins, "languages", "policy", "", 0o644) // configured as another kind
	install(t, plugins, "unused", "policy", "", 0o644)
	install(t, plugins, "damaged", "policy", "wrong", 0o644)
	install(t, plugins, "inert", "backend", "", 0o644)
	install(t, plugins, "open", "backend", "right", 0o755)
	if err := os.Chmod(filepath.Join(plugins, "open", "artifact"), 0o757); err != nil {
		t.Fatal(err)
	}
	install(t, plugins, "greedy", "policy", "", 0o644)
	greedy := strings.Replace(emptyModule, "\x03\x04\x03\x00\x01\x02", "\x02\x0c\x01\x03env\x04exit\x00\x00\x03\x04\x03\x00\x01\x02", 1)
	if err := os.WriteFile(filepath.Join(plugins, "greedy", "artifact"), []byte(greedy), 0o644); err != nil {
		t.Fatal(err)
	}
	install(t, plugins, "absent", "policy", "", 0o644)
	if err := os.Remove(filepath.Join(plugins, "absent", "artifact")); err != nil {
		t.Fatal(err)
	}
	install(t, plugins, "broken", "policy", "", 0o644)
	if err := os.WriteFile(filepath.Join(plugins, "broken", "plugin.yaml"), []byte("schema: 1\nnmae: broken\nkind: entry\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(plugins, "not-a-plugin"), 0o755); err != nil {
		t.Fatal(err)
	}
	return exe, plugins
}

func TestPluginList(t *testing.T) {
	exe, plugins := installed(t)
	second := filepath.Join(filepath.Dir(plugins), "second")
	install(t, second, "wasm", "backend", "", 0o755)

	in := invocation{exe: exe}
	r := in.run(t, "plugin", "list")
	if r.code != 0 || r.stderr != "" {
		t.Errorf("exit %d, stderr %q", r.code, r.stderr)
	}
	golden(t, "plugin-list.txt", r.stdout, plugins, "PLUGINS")

	r = in.run(t, "plugin", "list", "--json", "--plugins", plugins, "--plugins", second)
	if r.code != 0 || r.stderr != "" {
		t.Errorf("exit %d, stderr %q", r.code, r.stderr)
	}
	golden(t, "plugin-list.json", r.stdout, plugins, "PLUGINS", second, "SECOND")
	var list []host.PluginStatus
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		t.Errorf("not JSON: %v", err)
	}

	if r := in.run(t, "plugin", "list", "--check"); r.code != exitFailure || !strings.Contains(r.stderr, "broken or missing") {
		t.Errorf("--check: exit %d, stderr %q", r.code, r.stderr)
	}
}

func TestPluginListEmpty(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(config, []byte("policies: []\nlanguages: []\nbackends: [{plugin: mine}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := invocation{}.run(t, "plugin", "list", "--config", config, "--plugins", filepath.Join(dir, "none"))
	if r.code != 0 || !strings.Contains(r.stdout, "mine") || !strings.Contains(r.stdout, "configured and not installed") {
		t.Errorf("a configured plugin that is not installed: %+v", r)
	}
}
