package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/policy"
)

// A module that is watched is sent back for what is its own fault at once, and for what
// a busy machine or a strange request may do only when it is most of what happens.
func TestEndings(t *testing.T) {
	for reason, want := range map[wasm.Reason]uint64{
		wasm.ReasonTrap: 2, wasm.ReasonFuel: 2, wasm.ReasonMemory: 2, wasm.ReasonBadOutput: 2,
		wasm.ReasonTimeout: 0, wasm.ReasonGuest: 0, wasm.ReasonBusy: 0, wasm.ReasonBadInput: 0, wasm.ReasonCanceled: 0, wasm.ReasonClosed: 0,
	} {
		if got := endings(map[wasm.Reason]uint64{reason: 2}); got != want {
			t.Errorf("%s: %d, want %d", reason, got, want)
		}
	}
}

// A policy that comes with the configuration is looked at like one that is swapped in.
func TestReconfigureAsksForASelftest(t *testing.T) {
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.installFake()
	policyVersion(t, filepath.Join(f.plugins, "small"), "1.0.0", "limits: {fuel: 1}\n", code)
	h := f.open()
	with := f.change(func(c *Config) { c.Policies = []PolicyConfig{{Plugin: "small"}} })
	if _, err := h.Reconfigure(t.Context(), with); err == nil || !strings.Contains(err.Error(), `plugin "small": selftest`) {
		t.Errorf("err = %v", err)
	}
	if _, err := h.Admit(t.Context(), policy.Request{Org: "acme", Via: "bearer", Language: "py", Config: "fake", Network: "none"}); err != nil {
		t.Errorf("the chain changed: %v", err)
	}
}

// What takes too long to start is said in words.
func TestStartThatTakesTooLong(t *testing.T) {
	s := quick
	s.Crashes, s.Window = 1, time.Hour
	f := openFaulty(t, s, func(f *fixture, _ []byte) {
		f.install("hostile", "schema: 1\nname: hostile\nversion: 1.0.0\nkind: backend\nruntime: process\nprotocol: 1\npath: fake\nstart_timeout: 100ms\n",
			[]byte("#!/bin/sh\nexec /bin/sleep 60\n"), 0o755)
	})
	f.expectState(PluginQuarantined, "start: not ready within 100ms")
}
