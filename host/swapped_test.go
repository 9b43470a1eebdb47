package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/runtimes/handoff"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/policy"
)

// until polls for a state that nobody announces.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

// swapInBackground begins a swap whose report goes to the channel.
func swapInBackground(ctx context.Context, t *testing.T, h *Host, name string, o SwapOptions) <-chan SwapReport {
	out := make(chan SwapReport, 1)
	go func() {
		r, err := h.SwapPlugin(ctx, name, o)
		if err != nil {
			t.Error(err)
		}
		out <- r
	}()
	return out
}

func lastSwap(t *testing.T, h *Host, name string) LastSwap {
	t.Helper()
	d, err := h.PluginDetail(name)
	if err != nil {
		t.Fatal(err)
	}
	if d.LastSwap == nil {
		return LastSwap{}
	}
	return *d.LastSwap
}

// newFixtureWithPolicy has the backend "fake", version 1.2.3, and the policy "small",
// version 1.0.0, of the code that it returns.
func newFixtureWithPolicy(t *testing.T) (*fixture, []byte) {
	t.Helper()
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	f.installFake()
	f.instruct(script{Name: "fake", Version: "1.2.3", StateSchema: []string{"7"}})
	policyVersion(t, filepath.Join(f.plugins, "small"), "1.0.0", "", code)
	return f, code
}

// A version that serves is watched, whatever becomes of the connection on which the
// swap was asked for.
func TestSwapIsWatchedWithoutItsCaller(t *testing.T) {
	f, code := newFixtureWithPolicy(t)
	o := f.options()
	o.Config.Policies = []PolicyConfig{{Plugin: "small"}}
	o.Platform.Telemetry = telemetry.New(telemetry.Options{})
	h := f.openWith(o)
	for name, c := range map[string]struct {
		dir   string
		spoil func() // makes the version that serves fail
		was   string
		why   string
	}{
		"fake": {f.version("2.0.0", nil), func() {
			target, err := h.Target(context.Background(), "fake")
			if err != nil {
				t.Error(err)
				return
			}
			defer target.Release()
			_ = target.Backend.Delete(context.Background(), backend.Ref{Config: "fake", ID: "x"}) // it exits
		}, "1.2.3", "exited with status 3"},
		"small": {policyVersion(t, t.TempDir(), "2.0.0", "limits: {fuel: 1000}\n", code), func() {
			_, _ = h.Admit(context.Background(), policy.Request{Org: "acme", Via: "bearer", Language: "py", Config: "fake", Network: "none"})
		}, "1.0.0", "ended an instance"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			report := swapInBackground(ctx, t, h, name, SwapOptions{Dir: c.dir, Watch: time.Hour})
			until(t, "the next version serves", func() bool { return status(h, name).Version == "2.0.0" })
			if s := lastSwap(t, h, name); s.Outcome != SwapUnderWay || s.From.Version != c.was || s.To.Version != "2.0.0" {
				t.Errorf("while it is watched: %+v", s)
			}
			cancel()
			c.spoil()
			r := <-report
			if r.Outcome != SwapRolledBack || !strings.Contains(r.Reason, c.why) {
				t.Errorf("%+v", r)
			}
			if s := lastSwap(t, h, name); s.Outcome != SwapRolledBack || s.Reason != r.Reason || s.To.Version != "2.0.0" || s.At.IsZero() {
				t.Errorf("afterwards: %+v", s)
			}
			if p := status(h, name); p.Version != c.was || p.State != PluginReady {
				t.Errorf("status %+v", p)
			}
			var events []telemetry.Event
			for _, e := range h.Telemetry().Events(100) {
				if e.Kind == telemetry.EventSwap && e.Plugin == name {
					events = append(events, e)
				}
			}
			if len(events) != 1 || events[0].Outcome != string(SwapRolledBack) {
				t.Errorf("events %+v", events)
			}
		})
	}
}

// An operator who has seen enough ends the watch, and may change something else.
func TestAcceptSwap(t *testing.T) {
	f, code := newFixtureWithPolicy(t)
	o := f.options()
	o.Config.Policies = []PolicyConfig{{Plugin: "small"}}
	h := f.openWith(o)
	for _, name := range []string{"fake", "small", "absent"} {
		if err := h.AcceptSwap(t.Context(), name); err == nil || !strings.Contains(err.Error(), "no swap of plugin") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, dirs := range map[string][2]string{
		"fake":  {f.version("2.0.0", nil), f.version("3.0.0", nil)},
		"small": {policyVersion(t, t.TempDir(), "2.0.0", "", code), policyVersion(t, t.TempDir(), "3.0.0", "", code)},
	} {
		report := swapInBackground(context.Background(), t, h, name, SwapOptions{Dir: dirs[0], Watch: 24 * time.Hour})
		until(t, "the next version serves", func() bool { return status(h, name).Version == "2.0.0" })
		if _, err := h.Reconfigure(t.Context(), o.Config); !errors.Is(err, handoff.ErrSwapping) || !strings.Contains(err.Error(), "plugin accept "+name) {
			t.Errorf("err = %v", err)
		}
		if err := h.AcceptSwap(t.Context(), name); err != nil {
			t.Error(err)
		}
		if r := <-report; r.Outcome != SwapDone || !strings.Contains(r.Reason, "accepted") {
			t.Errorf("%+v", r)
		}
		if r, err := h.SwapPlugin(t.Context(), name, SwapOptions{Dir: dirs[1], Watch: -1}); err != nil || r.Outcome != SwapDone {
			t.Errorf("%+v %v", r, err)
		}
	}
}

// Who leaves before the switch changes nothing.
func TestSwapIsGivenUpBeforeTheSwitch(t *testing.T) {
	f, h := openStateful(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := h.SwapPlugin(ctx, "fake", SwapOptions{Dir: f.version("2.0.0", nil)})
	if err != nil || r.Outcome != SwapRefused {
		t.Errorf("%+v %v", r, err)
	}
	expectServing(t, h, "1.2.3")
	if s := lastSwap(t, h, "fake"); s.Outcome != SwapRefused || s.Reason == "" {
		t.Errorf("%+v", s)
	}
}

// What closes does not wait for a watch, and lets nothing change any more.
func TestClosingCutsTheWatchShort(t *testing.T) {
	for name, stop := range map[string]func(h *Host) error{
		"told to stop changes": func(h *Host) error { h.StopChanges(); return nil },
		"closed":               func(h *Host) error { return h.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			f, h := openStateful(t)
			report := swapInBackground(t.Context(), t, h, "fake", SwapOptions{Dir: f.version("2.0.0", nil), Watch: 24 * time.Hour})
			until(t, "the next version serves", func() bool { return status(h, "fake").Version == "2.0.0" })
			if err := stop(h); err != nil {
				t.Error(err)
			}
			if r := <-report; r.Outcome != SwapDone || !strings.Contains(r.Reason, "cut short") {
				t.Errorf("%+v", r)
			}
			if _, err := h.SwapPlugin(t.Context(), "fake", SwapOptions{Dir: f.version("3.0.0", nil)}); !errors.Is(err, handoff.ErrClosed) {
				t.Error(err)
			}
			if _, err := h.Reconfigure(t.Context(), f.options().Config); !errors.Is(err, handoff.ErrClosed) {
				t.Error(err)
			}
		})
	}
}
