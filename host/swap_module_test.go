package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/sdk/policy"
)

// policyVersion writes a version of the policy "small" to dir. Of 1000 units of
// fuel it can decide nothing.
func policyVersion(t *testing.T, dir, version, more string, code []byte) string {
	t.Helper()
	text := "schema: 1\nname: small\nversion: " + version + "\nkind: policy\nruntime: wasm\nprotocol: 1\npath: policy.wasm\nimports: [log]\n" + more
	err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "plugin.yaml"), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "policy.wasm"), code, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// wide is text as AssemblyScript has it in memory.
func wide(text string) (b []byte) {
	for _, c := range []byte(text) {
		b = append(b, c, 0)
	}
	return b
}

// A chain that asks a policy twice in one configuration has its module once.
func TestSamePolicyTwice(t *testing.T) {
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.installFake()
	policyVersion(t, filepath.Join(f.plugins, "small"), "1.0.0", "", code)
	o := f.options()
	for range 3 {
		o.Config.Policies = append(o.Config.Policies, PolicyConfig{Plugin: "small"})
	}
	h := f.openWith(o)
	if r, err := h.SwapPlugin(t.Context(), "small", SwapOptions{Dir: policyVersion(t, t.TempDir(), "1.1.0", "", code), Watch: -1}); err != nil || r.Outcome != SwapDone {
		t.Fatalf("%+v %v", r, err)
	}
	ref, err := h.modules.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Release()
	s := ref.Value()
	if len(s.parts) != 1 || len(s.chain.all) != 3 || s.parts[0].sets.Load() != 1 {
		t.Errorf("%d modules for %d policies, held %d times", len(s.parts), len(s.chain.all), s.parts[0].sets.Load())
	}
}

func TestSwapOfAPolicyLosesNoDecision(t *testing.T) {
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.installFake()
	policyVersion(t, filepath.Join(f.plugins, "small"), "1.0.0", "", code)
	o := f.options()
	o.Config.Policies = []PolicyConfig{{Plugin: "small"}}
	h, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	var asked, failed atomic.Int64
	var last atomic.Value
	for range 8 {
		workers.Go(func() {
			for ctx.Err() == nil {
				_, err := h.Admit(t.Context(), policy.Request{Org: "acme", Via: "bearer", Language: "py", Config: "fake", Network: "none"})
				asked.Add(1)
				if err != nil {
					failed.Add(1)
					last.Store(err)
				}
			}
		})
	}
	expect := func(dir string, watch time.Duration, want Outcome, reason string) {
		t.Helper()
		r, err := h.SwapPlugin(t.Context(), "small", SwapOptions{Dir: dir, Watch: watch})
		if err != nil || r.Outcome != want || !strings.Contains(r.Reason, reason) {
			t.Errorf("%+v %v, want %s because of %q", r, err, want, reason)
		}
	}
	for i := range 5 {
		v := fmt.Sprintf("1.%d.0", i+1)
		expect(policyVersion(t, t.TempDir(), v, "", code), 10*time.Millisecond, SwapDone, "")
		if p := status(h, "small"); p.Version != v || p.State != PluginReady {
			t.Errorf("status %+v", p)
		}
	}
	expect(policyVersion(t, t.TempDir(), "2.0.0", "", code[:100]), -1, SwapRefused, "")
	expect(policyVersion(t, t.TempDir(), "2.0.0", "config: {type: object, required: [zone], properties: {zone: {type: string}}}\n", code), -1, SwapRefused, "zone")
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d decisions failed, the last: %v", n, asked.Load(), last.Load())
	}
	// A version that cannot decide serves for a moment; each decision it owes is a
	// deny, and the one before takes over again.
	expect(policyVersion(t, t.TempDir(), "2.0.0", "limits: {fuel: 1000}\n", code), time.Minute, SwapRolledBack, "ended an instance")
	// So does one that goes on after each call, and whose answers are no verdicts.
	odd := bytes.ReplaceAll(code, wide(`"decision"`), wide(`"decisiom"`))
	expect(policyVersion(t, t.TempDir(), "2.0.0", "", odd), time.Minute, SwapRolledBack, "calls failed")
	if p := status(h, "small"); p.Version != "1.5.0" {
		t.Errorf("status %+v", p)
	}
	cancel()
	workers.Wait()
	if _, err := h.Admit(t.Context(), policy.Request{Org: "acme", Via: "bearer", Language: "py", Config: "fake", Network: "none"}); err != nil {
		t.Error(err)
	}
	t.Logf("%d decisions", asked.Load())
}

// A version that was installed and sent back is not tried again because something else
// is reloaded: the next time nobody might ask it while it is watched.
func TestReloadTriesNoVersionTwice(t *testing.T) {
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.installFake()
	installed := filepath.Join(f.plugins, "small")
	policyVersion(t, installed, "1.0.0", "", code)
	o := f.options()
	o.Config.Policies = []PolicyConfig{{Plugin: "small"}}
	h := f.openWith(o)
	ask := func() error {
		_, err := h.Admit(t.Context(), policy.Request{Org: "acme", Via: "bearer", Language: "py", Config: "fake", Network: "none"})
		return err
	}
	reload := func(watch time.Duration, want Outcome, reason string) {
		t.Helper()
		r, err := h.Rediscover(t.Context(), SwapOptions{Watch: watch})
		if err != nil || len(r) != 1 || r[0].Outcome != want || !strings.Contains(r[0].Reason, reason) {
			t.Errorf("%+v %v, want %s because of %q", r, err, want, reason)
		}
	}
	policyVersion(t, installed, "2.0.0", "limits: {fuel: 1000}\n", code)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for status(h, "small").Version != "2.0.0" {
			time.Sleep(time.Millisecond)
		}
		_ = ask()
	}()
	reload(time.Minute, SwapRolledBack, "ended an instance")
	<-asked
	reload(-1, SwapRefused, "was sent back when it was tried")
	if err := ask(); err != nil {
		t.Error(err)
	}
	// Whoever wants it says so, and another version is another.
	if r, err := h.SwapPlugin(t.Context(), "small", SwapOptions{Dir: installed, Watch: -1}); err != nil || r.Outcome != SwapDone {
		t.Errorf("%+v %v", r, err)
	}
	policyVersion(t, installed, "3.0.0", "", code)
	reload(-1, SwapDone, "")
	if err := ask(); err != nil {
		t.Error(err)
	}
}
