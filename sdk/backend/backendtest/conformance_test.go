package backendtest_test

import (
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inProcess is the harness of the reference backend.
func inProcess(probe backendtest.Probe) backendtest.Harness {
	return backendtest.Harness{
		New: func(t *testing.T) (backend.Backend, json.RawMessage) {
			b := hostbackend.New(t.TempDir())
			t.Cleanup(func() { _ = b.Close() })
			return b, json.RawMessage(`{"label":"x"}`)
		},
		Probe:     probe,
		BadConfig: json.RawMessage(`{"unknown":1}`),
		Lacks:     []backendtest.Lack{backendtest.LackPaths},
		ShortRun:  1500 * time.Millisecond,
	}
}

// overGRPC puts the wire between the kit and a backend.
func overGRPC(h backendtest.Harness) backendtest.Harness {
	inner := h.New
	h.New = func(t *testing.T) (backend.Backend, json.RawMessage) {
		b, config := inner(t)
		return backendtest.OverWire(t, b), config
	}
	return h
}

// TestConformance proves the kit and its probes against a backend that works.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		command string
		probe   backendtest.Probe
	}{
		{"sh", backendtest.Shell("sh")},
		{"python3", backendtest.Python("python3")},
		{"node", backendtest.JavaScript("node")},
	} {
		t.Run(c.command, func(t *testing.T) {
			if testing.Short() && c.command != "sh" {
				t.Skip("one language is enough for a short run")
			}
			if _, err := exec.LookPath(c.command); err != nil {
				t.Skip(err)
			}
			backendtest.Run(t, inProcess(c.probe))
		})
	}
}

// TestConformanceOverGRPC proves the wire: nothing of the contract is lost on it.
func TestConformanceOverGRPC(t *testing.T) {
	backendtest.Run(t, overGRPC(inProcess(backendtest.Shell("sh"))))
}
