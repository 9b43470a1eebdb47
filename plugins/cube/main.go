// Command cube is the backend for CubeSandbox as a plugin process: a host starts
// it. See docs/cube.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/plugins/cube/internal/dialect"
	"github.com/caisson-run/caisson/plugins/internal/remote"
	"github.com/caisson-run/caisson/sdk/backend"
)

// name and version are those of plugin.yaml; a test holds them together.
const (
	name    = "cube"
	version = "0.1.0"
)

// capabilities are those of plugin.yaml. Sandboxes are not shared: the token that
// opens one is told once, to the process that made it.
var capabilities = []backend.Capability{
	backend.CapReconnect, backend.CapMetadata, backend.CapList, backend.CapFSEnum, backend.CapNetwork,
	backend.CapTTLRefresh, backend.CapPause, backend.CapSnapshots, backend.CapTemplates, backend.CapTerminals,
	backend.CapDialPort, backend.CapDetached, backend.CapWatch,
}

func main() { backend.Serve(open) }

func open(_ context.Context, log hclog.Logger) (backend.Backend, error) {
	dir := os.Getenv(backend.EnvData)
	if dir == "" {
		return nil, fmt.Errorf("%s is not set: this is a plugin, to be started by a host", backend.EnvData)
	}
	return remote.New(remote.Plugin{
		Name: name, Version: version, Capabilities: capabilities, Dir: dir, Log: log,
		Open: func(raw json.RawMessage) (*remote.Config, error) { return dialect.Open(name, raw) },
	}), nil
}
