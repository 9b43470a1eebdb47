package host

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caisson-run/caisson/sdk/policy"
)

// regoPlugin writes the sample bundle of package wasm as a plugin "rego" to dir.
func regoPlugin(t *testing.T, dir string) {
	t.Helper()
	bundle, err := os.ReadFile("../runtimes/wasm/testdata/opa/policy.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	const text = `schema: 1
name: rego
version: 1.0.0
kind: policy
runtime: wasm
protocol: 1
path: policy.tar.gz
abi: opa
hooks: [admit, result]
config:
  type: object
  properties:
    denied: {type: array, items: {type: string}}
`
	if err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "plugin.yaml"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "policy.tar.gz"), bundle, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// A policy in Rego is a policy like any other.
func TestPolicyInRego(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	regoPlugin(t, filepath.Join(f.plugins, "rego"))
	o := f.options()
	o.Config.Policies = []PolicyConfig{{Plugin: "rego", Config: json.RawMessage(`{"denied":["php"]}`)}}
	h, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	ask := func(language string) (Ruling, *PolicyError) {
		r, err := h.Admit(t.Context(), policy.Request{Org: "o", Via: "bearer", Language: language, Config: "fake", Network: "none", Limits: policy.Limits{WallMS: 9000}})
		var denied *PolicyError
		if err != nil && !errors.As(err, &denied) {
			t.Fatal(err)
		}
		return r, denied
	}
	if r, err := ask("py"); err != nil || r.Limits.WallMS != 5000 {
		t.Errorf("%+v %v", r, err)
	}
	for _, language := range []string{"bash", "php"} {
		if _, err := ask(language); err == nil || err.Code != "language_not_allowed" || err.Reason != language+" is not allowed here" {
			t.Errorf("%s: %v", language, err)
		}
	}
	out := outcome()
	out.StdoutBytes = 2000
	if w := h.Review(t.Context(), out); !slices.Equal(w, []PolicyWarning{{"rego", "noisy", "the program wrote 2000 bytes"}}) {
		t.Errorf("%+v", w)
	}
	if d, err := h.PluginDetail("rego"); err != nil || d.ABI != "opa" || d.Module == nil || d.Module.Revision != "sample-1" || d.Module.Stop != "fuel" {
		t.Errorf("%+v %v", d, err)
	}
	bad := o
	bad.Config.Policies = []PolicyConfig{{Plugin: "rego", Config: json.RawMessage(`{"denied":"php"}`)}}
	if _, err := h.Reconfigure(t.Context(), bad.Config); err == nil {
		t.Error("a configuration that the schema refuses is in force")
	}
	if _, err := ask("php"); err == nil {
		t.Error("php is allowed")
	}
}

func TestVerifyRego(t *testing.T) {
	dir := t.TempDir()
	regoPlugin(t, dir)
	checks, err := VerifyModule(t.Context(), dir, VerifyOptions{Calls: 2000})
	if err != nil {
		t.Fatal(err)
	}
	if last := checks[len(checks)-1]; len(checks) != 6 || !last.OK {
		t.Errorf("%+v", checks)
	}
	if d := Lint(t.Context(), dir, Trust{}); d.State == PluginError {
		t.Errorf("%+v", d)
	}
}
