package host

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/caisson-run/caisson/sdk/policy"
)

// What is in use is told, whether a manifest pins it or not.
func TestDetailOfWhatIsLoaded(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	policyVersion(t, filepath.Join(f.plugins, "small"), "1.0.0", "", code)
	o := f.options()
	o.Config.Policies = []PolicyConfig{{Plugin: "small"}}
	h := f.openWith(o)

	// The file has changed since.
	if err := os.Rename(filepath.Join(f.plugins, "fake", "fake"), filepath.Join(f.data, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.plugins, "fake", "fake"), []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := h.PluginDetail("fake")
	if err != nil || d.SHA256 != "" || d.Process == nil || d.Process.PID == 0 {
		t.Fatalf("%+v %v", d, err)
	}
	if runtime.GOOS == "linux" && (d.Digest != sumOf(self(t)) || d.Process.MemoryHigh < 1<<20) {
		t.Errorf("digest %s, %d bytes at most", d.Digest, d.Process.MemoryHigh)
	}
	d, err = h.PluginDetail("small")
	if err != nil || d.Module == nil || d.Digest != sumOf(code) || d.Module.Digest != d.Digest || !slices.Equal(d.Links, []string{"host_v1.log"}) {
		t.Errorf("%+v %v", d, err)
	}
	if d := Lint(t.Context(), filepath.Join(f.plugins, "small"), Trust{}); d.Digest != sumOf(code) || !slices.Equal(d.Links, []string{"host_v1.log"}) {
		t.Errorf("%+v", d)
	}
	if d := Lint(t.Context(), filepath.Join(f.plugins, "fake"), Trust{}); d.Digest != sumOf([]byte("another")) || d.State == PluginError {
		t.Errorf("%+v", d)
	}
}

// A module that answers, and not what it was asked, has failed.
func TestUnreadableAnswersAreFailures(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	f.installModule(policyManifest+"hooks: [admit, result]\n", policyModule("", "")) // its answers are empty
	o := f.options()
	o.Config.Policies = []PolicyConfig{{Plugin: "guard", Mode: PolicyObserve}}
	h := f.openWith(o)
	for range 3 {
		if _, err := h.Admit(t.Context(), policy.Request{Org: "o", Via: "bearer", Language: "py", Config: "fake", Network: "none"}); err != nil {
			t.Fatal(err)
		}
	}
	h.Review(t.Context(), outcome()) // no answer is that there is nothing to remark
	d, err := h.PluginDetail("guard")
	if err != nil || d.Module == nil || d.Module.Calls < 4 || d.Module.Failures["unreadable"] != 3 {
		t.Errorf("%+v %v", d.Module, err)
	}
	for _, p := range h.measurePlugins() {
		if p.Name == "guard" && (p.Module == nil || p.Module.Failures["unreadable"] != 3) {
			t.Errorf("measured %+v", p.Module)
		}
	}
}
