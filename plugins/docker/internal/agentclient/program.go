package agentclient

import (
	"context"
	"errors"
	"io"
	"strconv"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
)

// Capabilities are what the container needs beside none: SETPCAP only until the
// agent has emptied the bounding set for itself and everything below it, the others
// for as long as it runs.
func Capabilities() []string { return []string{"KILL", "SETGID", "SETPCAP", "SETUID"} }

// MinPids is how many processes and threads a container with an agent should be allowed at
// the least.
const MinPids = agentwire.MinPids

// ProgramPath is where in a container the agent of a build belongs.
func ProgramPath(build string) string { return "/.caisson/agent-" + build[:min(len(build), 16)] }

// RelayCommand is the argument vector that connects stdin and stdout with the agent,
// started or replaced where needed.
func RelayCommand(build string) []string { return []string{ProgramPath(build), "relay"} }

// HoldCommand is an argument vector for a container's main process: it waits for
// SIGTERM and does nothing else.
func HoldCommand(build string) []string { return []string{ProgramPath(build), "hold"} }

// ListenCommand makes the agent, started where needed, listen on a further unix
// socket and returns: for a bind-mounted directory that only uid may enter.
func ListenCommand(build, path string, uid int) []string {
	return []string{ProgramPath(build), "listen", path, strconv.Itoa(uid)}
}

// Dialer connects with the agent. The connection is closed by whoever gets it; closing
// it must end a Read that is under way.
type Dialer func(ctx context.Context) (io.ReadWriteCloser, error)

// ErrLost is in the chain of errors of calls whose connection broke, or could not be
// made again. What the call did by then is unknown.
var ErrLost = errors.New("the connection to the agent is lost")
