// Command cube is the backend for CubeSandbox as a plugin process: a host starts
// it. See docs/cube.md.
package main

import (
	"encoding/json"

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
	backend.CapReconnect, backend.CapTokenOnce, backend.CapMetadata, backend.CapList, backend.CapFSEnum, backend.CapNetwork,
	backend.CapTTLRefresh, backend.CapPause, backend.CapSnapshots, backend.CapTemplates, backend.CapTerminals,
	backend.CapDialPort, backend.CapDetached, backend.CapWatch,
}

func main() { remote.Serve(plugin()) }

func plugin() remote.Plugin {
	return remote.Plugin{
		Name: name, Version: version, Capabilities: capabilities,
		Open: func(raw json.RawMessage) (*remote.Config, error) { return dialect.Open(name, raw) },
	}
}
