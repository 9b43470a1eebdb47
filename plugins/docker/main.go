// Command docker is the Docker backend as a plugin process: every sandbox is a
// container. A host starts it and tells it in the environment where to keep its
// records; the configs that the host opens say which engine to use.
//
// Beside the program is the directory agent, with the programs that it puts into
// containers, one for each architecture of an engine. The plugin knows their digests
// since it was built and takes no others.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/caisson-run/caisson/plugins/docker/internal/sandboxes"
	"github.com/caisson-run/caisson/sdk/backend"
)

// version is that of plugin.yaml; a test holds them together.
const version = "0.1.0"

// agents are the digests of the agents that were built with this program, as
// ARCHITECTURE:SHA256 with commas between. The linker sets it.
var agents string

// agentDir is where they are, beside this program unless a test says otherwise.
var agentDir string

func main() {
	if len(os.Args) > 1 {
		fmt.Fprintf(os.Stderr, "docker: unknown argument %q: a host starts this without any\n", os.Args[1])
		os.Exit(2)
	}
	backend.Serve(open)
}

func open(_ context.Context, log hclog.Logger) (backend.Backend, error) {
	dir := os.Getenv(backend.EnvData)
	if dir == "" {
		return nil, fmt.Errorf("%s is not set: this is a plugin, to be started by a host", backend.EnvData)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if agentDir == "" {
		agentDir = filepath.Join(filepath.Dir(exe), "agent")
	}
	return sandboxes.New(sandboxes.Options{
		Version: version, Dir: dir, Log: log, Agents: builtAgents(agents, agentDir),
	})
}

// builtAgents finds the agents of a list of digests in a directory.
func builtAgents(list, dir string) map[string]sandboxes.Agent {
	found := make(map[string]sandboxes.Agent)
	for entry := range strings.SplitSeq(list, ",") {
		if arch, sum, ok := strings.Cut(entry, ":"); ok {
			found[arch] = sandboxes.Agent{Path: filepath.Join(dir, "linux-"+arch), SHA256: sum}
		}
	}
	return found
}
