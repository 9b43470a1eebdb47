package process

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/internal/hostbackend"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

// serveHost is a plugin around the reference backend, which keeps its sandboxes
// below dir.
func serveHost(dir string) {
	backend.Serve(func(context.Context, hclog.Logger) (backend.Backend, error) { return hostbackend.New(dir), nil })
}

// TestConformance runs the kit over the real process boundary.
func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Harness{
		New: func(t *testing.T) (backend.Backend, json.RawMessage) {
			p, _ := begin(t, "backend:"+t.TempDir())
			return p.Backend(), json.RawMessage(`{}`)
		},
		Probe:     backendtest.Shell("/bin/sh"),
		BadConfig: json.RawMessage(`{"unknown":1}`),
		Skip: map[string]string{
			"run/directory":    "programs see the machine's own paths",
			"run/program_gone": "programs see the machine's own paths",
		},
	})
}
