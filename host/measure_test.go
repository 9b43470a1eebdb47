package host

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/sdk/policy"
)

// What plugins do is measured, and what becomes of them is told.
func TestPluginsAreMeasured(t *testing.T) {
	f, _ := newFixtureWithPolicy(t)
	tel := telemetry.New(telemetry.Options{})
	o := f.options()
	o.Platform.Telemetry = tel
	o.Config.Policies = []PolicyConfig{{Plugin: "small", Mode: PolicyObserve}}
	// The end that is made here counts as the first, which has no pause.
	o.supervision = supervise.Settings{CheckEvery: time.Hour}
	h, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			h.Close(context.Background())
		}
	}()
	for range 3 {
		if _, err := h.Admit(t.Context(), policy.Request{Org: "acme", Via: "bearer", Language: "py", Config: "fake", Network: "none"}); err != nil {
			t.Fatal(err)
		}
	}
	expectServing(t, h, "1.2.3")
	swap(t, h, SwapOptions{Dir: t.TempDir()}, SwapRefused)
	swap(t, h, SwapOptions{Dir: f.version("1.3.0", nil), Watch: -1}, SwapDone)
	if u, ok := h.backends.line("fake").program().sup.Now(); ok { // it crashes
		p, err := os.FindProcess(u.proc.PID())
		if err == nil {
			err = p.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	story := func() (all []string) {
		for _, e := range tel.Events(100) {
			if e.Kind == telemetry.EventSwap {
				all = append(all, e.Outcome+" "+e.From+" "+e.To)
			}
			if e.Kind == telemetry.EventState && e.To == "ready" {
				all = append(all, "ready")
			}
		}
		return all
	}
	want := []string{"ready", "refused 1.2.3 ", "ready", "switched 1.2.3 1.3.0", "ready"}
	restarted := func() bool { // the event comes after the state that is measured
		return strings.Contains(metrics(tel), `caisson_plugin_restarts_total{plugin="fake"} 1`) && len(story()) == len(want)
	}
	for deadline := time.Now().Add(20 * time.Second); !restarted(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the restart was not counted; events tell %q", story())
		}
	}
	if _, err := h.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := f.options().Config
	c.Default = "nonsense"
	if _, err := h.Reconfigure(t.Context(), c); err == nil {
		t.Error("nonsense was taken")
	}
	got := metrics(tel)
	for _, want := range []string{
		`caisson_policy_decisions_total{decision="allow",mode="observe",policy="small"} 3`,
		`caisson_policy_seconds_count{policy="small"} 3`,
		`caisson_phase_seconds_count{phase="policy"} 3`,
		`caisson_module_calls_total{plugin="small"} 3`,
		`caisson_plugin_calls_total{code="OK",method="Get",plugin="fake"} 1`,
		`caisson_plugin_call_seconds_count{method="OpenConfig",plugin="fake"}`,
		`caisson_plugin_swaps_total{outcome="refused",plugin="fake"} 1`,
		`caisson_plugin_swaps_total{outcome="switched",plugin="fake"} 1`,
		`caisson_plugin_info{kind="backend",plugin="fake",version="1.3.0"} 1`,
		`caisson_plugin_state{plugin="fake",state="ready"} 1`,
		`caisson_plugin_state{plugin="fake",state="quarantined"} 0`,
		`caisson_reconfigurations_total{result="refused"} 1`,
		`caisson_sessions_swept_total{result="ended"} 0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
	if got := story(); !slices.Equal(got, want) {
		t.Errorf("events tell %q, want %q", got, want)
	}
	closed = true
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := metrics(tel); strings.Contains(got, "caisson_plugin_state{") {
		t.Error("a closed host is still asked about its plugins")
	}
}

func metrics(tel *telemetry.Telemetry) string {
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Body.String()
}
