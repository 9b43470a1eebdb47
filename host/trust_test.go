package host

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/caisson-run/caisson/manifest"
)

// With keys, what is not signed by one of them is not used: neither at the start
// nor later, and no longer once it was changed.
func TestSignedPluginsOnly(t *testing.T) {
	public, secret, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := manifest.ParseKeys([]string{public.String()})
	if err != nil {
		t.Fatal(err)
	}
	sign := func(dir string) {
		t.Helper()
		path := filepath.Join(dir, "plugin.yaml")
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), "sha256") {
			var program []byte
			program, err = os.ReadFile(filepath.Join(dir, "fake"))
			sum := sha256.Sum256(program)
			text = append(text, "sha256: "+hex.EncodeToString(sum[:])+"\n"...)
		}
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, manifest.SignatureName), minisign.Sign(secret, text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f := newFixture(t)
	f.installFake()
	f.instruct(script{Name: "fake", Version: "1.2.3", StateSchema: []string{"7"}})
	o := f.options()
	o.Trust.SigningKeys = keys
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), manifest.SignatureName) {
		t.Fatalf("an unsigned plugin: %v", err)
	}
	sign(filepath.Join(f.plugins, "fake"))
	h, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	expectServing(t, h, "1.2.3")

	next := f.version("1.3.0", nil)
	if r := swap(t, h, SwapOptions{Dir: next, Watch: -1}, SwapRefused); !strings.Contains(r.Reason, manifest.SignatureName) {
		t.Errorf("reason %q", r.Reason)
	}
	sign(next)
	program := filepath.Join(next, "fake")
	good, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, append(good, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := swap(t, h, SwapOptions{Dir: next, Watch: -1}, SwapRefused); !strings.Contains(r.Reason, "digest") {
		t.Errorf("reason %q", r.Reason)
	}
	if err := os.WriteFile(program, good, 0o755); err != nil {
		t.Fatal(err)
	}
	swap(t, h, SwapOptions{Dir: next, Watch: -1}, SwapDone)
	expectServing(t, h, "1.3.0")
}

// In strict mode, and with keys, there is no way in for a plugin that pins no digest.
func TestNoWayAroundTrust(t *testing.T) {
	public, _, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := manifest.ParseKeys([]string{public.String()})
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	pinned := func(dir, version string) string {
		sum := sha256.Sum256(code)
		return policyVersion(t, dir, version, "sha256: \""+hex.EncodeToString(sum[:])+"\"\n", code)
	}
	f := newFixture(t)
	program := self(t)
	sum := sha256.Sum256(program)
	f.install("fake", fakeManifest+"sha256: \""+hex.EncodeToString(sum[:])+"\"\n", program, 0o755)
	installed := pinned(filepath.Join(f.plugins, "small"), "1.0.0")
	o := f.options()
	o.Trust.StrictDigests = true
	o.Config.Policies = []PolicyConfig{{Plugin: "small"}}
	h := f.openWith(o)

	loose := policyVersion(t, t.TempDir(), "2.0.0", "", code)
	looseBackend := f.version("2.0.0", nil)
	refuse := func(how, said string) {
		t.Helper()
		if !strings.Contains(said, "sha256") {
			t.Errorf("%s: %q, want a refusal because of sha256", how, said)
		}
	}
	for name, dir := range map[string]string{"small": loose, "fake": looseBackend} {
		r, err := h.SwapPlugin(t.Context(), name, SwapOptions{Dir: dir, Watch: -1})
		if err != nil || r.Outcome != SwapRefused {
			t.Errorf("swap of %s: %+v %v", name, r, err)
		}
		refuse("swap of "+name, r.Reason)
		d := Lint(t.Context(), dir, o.Trust)
		refuse("lint of "+name, d.Cause)
		if d.State != PluginError {
			t.Errorf("lint of %s: %s", name, d.State)
		}
	}
	if _, err := h.ReplayPolicy(t.Context(), "small", loose, 1); err == nil {
		t.Error("a replay took it")
	} else {
		refuse("replay", err.Error())
	}
	checks, err := VerifyModule(t.Context(), loose, VerifyOptions{Trust: o.Trust, Calls: 1})
	if err != nil || len(checks) != 1 || checks[0].OK {
		t.Errorf("%+v %v", checks, err)
	}
	if _, err := TryBackend(t.Context(), looseBackend, TrialOptions{Trust: o.Trust, DataDir: t.TempDir()}); err == nil {
		t.Error("a trial took it")
	} else {
		refuse("trial", err.Error())
	}
	// Installed over the one in use, or new and then asked for.
	policyVersion(t, installed, "2.0.0", "", code)
	f.install("other", strings.Replace(fakeManifest, "name: fake", "name: other", 1), program, 0o755)
	for range 2 { // it is told as long as it is so
		r, err := h.Rediscover(t.Context(), SwapOptions{Watch: -1})
		if err != nil || len(r) != 1 || r[0].Plugin != "small" || r[0].Outcome != SwapRefused || r[0].From.Version != "1.0.0" {
			t.Fatalf("rediscover: %+v %v", r, err)
		}
		refuse("rediscover", r[0].Reason)
	}
	if p := status(h, "small"); p.Version != "1.0.0" || p.State != PluginReady {
		t.Errorf("status %+v", p)
	}
	if _, err := h.Reconfigure(t.Context(), f.change(func(c *Config) {
		c.Policies = o.Config.Policies
		c.Backends = append(c.Backends, BackendConfig{Plugin: "other"})
	})); err == nil {
		t.Error("a configuration brought it in")
	} else {
		refuse("reconfigure", err.Error())
	}
	// Keys ask for more, also of one that pins its digest.
	for _, dir := range []string{loose, pinned(t.TempDir(), "2.0.0")} {
		if d := Lint(t.Context(), dir, Trust{SigningKeys: keys}); d.State != PluginError || !strings.Contains(d.Cause, manifest.SignatureName) {
			t.Errorf("%+v", d.PluginStatus)
		}
	}
}
