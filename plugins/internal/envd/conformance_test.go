package envd_test

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

// TestConformance runs the kit of all backends over the data plane of both kinds of
// gateway, each with one codec.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the kit of plugins/e2b runs the same code")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		need(t, "python3 is missing: %v", err)
	}
	for name, o := range map[string]options{
		"e2b, binary":     {style: envdfake.E2B},
		"cube, JSON, old": {style: envdfake.Cube, machine: envdfake.Options{Version: "0.5.1"}, change: func(o *envd.Options) { o.JSON = true }},
	} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, backendtest.Harness{
				New: func(t *testing.T) (backend.Backend, json.RawMessage) {
					return newStand(t, o), json.RawMessage("{}")
				},
				Probe:     backendtest.Python("python3"),
				BadConfig: json.RawMessage(`{"x":1}`),
				Skip: map[string]string{
					"config/unknown": "configs are the plugin's business: this is the data plane of one",
					"config/apart":   "configs are the plugin's business: this is the data plane of one",
				},
			})
		})
	}
}
