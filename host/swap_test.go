package host

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/runtimes/handoff"
	"github.com/caisson-run/caisson/sdk/backend"
)

// version installs another version of the fake plugin outside the plugin
// directories and returns its directory.
func (f *fixture) version(v string, change func(*script), edit ...string) string {
	f.t.Helper()
	dir := f.t.TempDir()
	m := strings.NewReplacer(append([]string{"version: 1.2.3", "version: " + v}, edit...)...).Replace(fakeManifest)
	s := script{Name: "fake", Version: v, StateSchema: []string{"7"}}
	if change != nil {
		change(&s)
	}
	b, err := json.Marshal(s)
	for name, data := range map[string][]byte{"plugin.yaml": []byte(m), "fake": self(f.t), "script.json": b} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o755)
		}
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return dir
}

// serving says which version answers.
func serving(h *Host) (string, error) {
	t, err := h.Target(context.Background(), "fake")
	if err != nil {
		return "", err
	}
	defer t.Release()
	sb, err := t.Backend.Get(context.Background(), backend.Ref{Config: "fake", ID: "x"})
	return sb.Metadata.Labels["version"], err
}

func expectServing(t *testing.T, h *Host, want string) {
	t.Helper()
	if v, err := serving(h); v != want || err != nil {
		t.Errorf("version %q serves (%v), want %q", v, err, want)
	}
}

func swap(t *testing.T, h *Host, o SwapOptions, want Outcome) SwapReport {
	t.Helper()
	r, err := h.SwapPlugin(t.Context(), "fake", o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Outcome != want || (r.Reason == "") != (want == SwapDone) {
		t.Fatalf("report %+v, want %s", r, want)
	}
	return r
}

func openStateful(t *testing.T) (*fixture, *Host) {
	f := newFixture(t)
	f.installFake()
	f.instruct(script{Name: "fake", Version: "1.2.3", StateSchema: []string{"7"}})
	return f, f.open()
}

func TestSwapLosesNoCall(t *testing.T) {
	f, h := openStateful(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var workers sync.WaitGroup
	var calls, failed atomic.Int64
	for range 16 {
		workers.Go(func() {
			for ctx.Err() == nil {
				if _, err := serving(h); err != nil {
					failed.Add(1)
					t.Errorf("a call failed: %v", err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range 6 {
		v := "1.3." + string(rune('0'+i))
		r := swap(t, h, SwapOptions{Dir: f.version(v, nil), Probe: true, Watch: 100 * time.Millisecond}, SwapDone)
		if r.To.Version != v || r.InFlight != 0 {
			t.Errorf("report %+v", r)
		}
		expectServing(t, h, v)
	}
	cancel()
	workers.Wait()
	t.Logf("%d calls, %d failed", calls.Load(), failed.Load())
	if p := status(h, "fake"); p.Version != "1.3.5" || p.State != PluginReady {
		t.Errorf("status %+v", p)
	}
	for len(h.backends.line("fake").slot.Uses()) != 1 { // the others end
		time.Sleep(time.Millisecond)
	}
}

func TestSwapRefuses(t *testing.T) {
	f, h := openStateful(t)
	other := strings.Repeat("a", 64)
	for name, c := range map[string]struct {
		dir  string
		want string
	}{
		"nothing there":     {filepath.Join(f.data, "absent"), "no such file"},
		"another plugin":    {f.version("2.0.0", nil, "name: fake", "name: other"), `"other"`},
		"another kind":      {f.version("2.0.0", nil, "kind: backend", "kind: policy"), "policy"},
		"wrong digest":      {f.version("2.0.0", nil, "path: fake", "path: fake\nsha256: "+other), "digest"},
		"config it refuses": {f.version("2.0.0", nil, "region: {type: string, default: eu}", "zone: {type: string}\n  required: [zone]"), "zone"},
		"newer protocol":    {f.version("2.0.0", nil, "protocol: [1]", "protocol: [9]"), "9"},
		"does not start":    {f.version("2.0.0", func(s *script) { s.Fail = "no such daemon" }), "no such daemon"},
		"says another name": {f.version("2.0.0", func(s *script) { s.Version = "6.6.6" }), "6.6.6"},
		"loses its state":   {f.version("2.0.0", func(s *script) { s.StateSchema = []string{"8"} }, `["7"]`, `["8"]`), `state schema "7"`},
		"makes no sandbox":  {f.version("2.0.0", func(s *script) { s.NoSandbox = "image is missing" }), "image is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := swap(t, h, SwapOptions{Dir: c.dir, Probe: true, Watch: -1}, SwapRefused)
			if !strings.Contains(r.Reason, c.want) {
				t.Errorf("reason %q, want it to say %q", r.Reason, c.want)
			}
			expectServing(t, h, "1.2.3")
		})
	}
	t.Run("not ready", func(t *testing.T) {
		// Whoever asks a second time has the first answer, however long the start took.
		ctx, cancel := context.WithCancel(backend.WithRequestID(t.Context(), "swap"))
		var patience sync.WaitGroup
		patience.Go(func() {
			defer cancel()
			for asked := 0; asked < 2 && ctx.Err() == nil; time.Sleep(time.Millisecond) {
				b, _ := os.ReadFile(filepath.Join(f.data, "plugins", "fake", "asked-swap"))
				asked = len(b)
			}
		})
		defer patience.Wait()
		defer cancel()
		r, err := h.SwapPlugin(ctx, "fake", SwapOptions{Dir: f.version("2.0.0", func(s *script) { s.NotReady = "compiling" })})
		if err != nil || r.Outcome != SwapRefused || !strings.Contains(r.Reason, "compiling") {
			t.Errorf("%+v %v", r, err)
		}
		expectServing(t, h, "1.2.3")
	})
	if _, err := h.SwapPlugin(t.Context(), "absent", SwapOptions{}); err == nil {
		t.Error("an absent plugin was swapped")
	}
	if uses := h.backends.line("fake").slot.Uses(); len(uses) != 1 || uses[0].Generation != 1 {
		t.Errorf("generations %+v", uses)
	}
}

func TestSwapGoesBack(t *testing.T) {
	f, h := openStateful(t)
	t.Run("after a crash", func(t *testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				if v, _ := serving(h); v == "2.0.0" {
					break
				}
			}
			target, err := h.Target(context.Background(), "fake")
			if err != nil {
				t.Error(err)
				return
			}
			defer target.Release()
			_ = target.Backend.Delete(context.Background(), backend.Ref{Config: "fake", ID: "x"}) // it exits
		}()
		r := swap(t, h, SwapOptions{Dir: f.version("2.0.0", nil), Watch: time.Minute}, SwapRolledBack)
		<-done
		if !strings.Contains(r.Reason, "exited with status 3") {
			t.Errorf("reason %q", r.Reason)
		}
		expectServing(t, h, "1.2.3")
	})
	t.Run("after failed calls", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var caller sync.WaitGroup
		caller.Go(func() {
			for ctx.Err() == nil {
				_, _ = serving(h)
				time.Sleep(time.Millisecond)
			}
		})
		r := swap(t, h, SwapOptions{Dir: f.version("2.0.0", func(s *script) { s.Broken = true }), Watch: time.Minute}, SwapRolledBack)
		cancel()
		caller.Wait()
		if !strings.Contains(r.Reason, "calls failed") {
			t.Errorf("reason %q", r.Reason)
		}
		expectServing(t, h, "1.2.3")
		if p := status(h, "fake"); p.Version != "1.2.3" {
			t.Errorf("status %+v", p)
		}
	})
}

func TestCallsInFlightEndWhereTheyBegan(t *testing.T) {
	f, h := openStateful(t)
	target, err := h.Target(t.Context(), "fake")
	if err != nil {
		t.Fatal(err)
	}
	reported := make(chan SwapReport)
	go func() {
		r, err := h.SwapPlugin(context.Background(), "fake", SwapOptions{Dir: f.version("2.0.0", nil), Watch: -1})
		if err != nil {
			t.Error(err)
		}
		reported <- r
	}()
	for {
		if v, _ := serving(h); v == "2.0.0" {
			break
		}
	}
	if _, err := h.SwapPlugin(t.Context(), "fake", SwapOptions{Dir: f.version("3.0.0", nil)}); !errors.Is(err, handoff.ErrSwapping) {
		t.Errorf("a second swap: %v", err)
	}
	sb, err := target.Backend.Get(t.Context(), backend.Ref{Config: "fake", ID: "x"})
	if err != nil || sb.Metadata.Labels["version"] != "1.2.3" {
		t.Errorf("the call in flight: %+v %v", sb, err)
	}
	target.Release()
	if r := <-reported; r.Outcome != SwapDone || r.InFlight != 0 {
		t.Errorf("report %+v", r)
	}
}
