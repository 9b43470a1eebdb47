package agentclient

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Capabilities are what the container needs beside none: SETPCAP only until the
// agent has emptied the bounding set for itself and everything below it, the others
// for as long as it runs.
func Capabilities() []string { return []string{"KILL", "SETGID", "SETPCAP", "SETUID"} }

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
	return []string{ProgramPath(build), "listen", path, itoa(uid)}
}

// Dialer connects with the agent. The connection is closed by whoever gets it; closing
// it must end a Read that is under way.
type Dialer func(ctx context.Context) (io.ReadWriteCloser, error)

// ErrLost is in the chain of errors of calls whose connection broke, or could not be
// made again. What the call did by then is unknown.
var ErrLost = errors.New("the connection to the agent is lost")

// Options of a Client.
type Options struct {
	// Build is what the agent should be: the hex SHA-256 of its program. Empty takes any.
	Build string
	// Env is the sandbox's environment, which runs add to. The agent itself adds, where
	// neither has it, PATH (that of the container), HOME, USER, LOGNAME and TMPDIR.
	Env map[string]string
	// Limits stand where a run names none. Zero: 30 s wall, 1 MiB of stdout and stderr
	// each, and for the rest what the container has.
	Limits backend.Limits
	// CopyFrom opens a file of another sandbox of the same config, for inputs that name
	// one. nil: such inputs are missing.
	CopyFrom func(ctx context.Context, src backend.CopySource) (io.ReadCloser, backend.Entry, error)
	// Rejoin is how long a run whose connection broke goes on, waiting for the client to
	// dial again and take it over. Zero means 15 s; negative does not try.
	Rejoin time.Duration
}

// Agent is what the agent says about itself and its container.
type Agent struct {
	// Build is the hex SHA-256 of its program, Protocol the version it speaks.
	Build    string
	Protocol int
	// Started is when it was started, by the container's clock.
	Started time.Time
	// UID is the user id of foreground runs, GID the group that all programs share.
	UID, GID int
	// Caps are the agent's own capability mask and Bounding its bounding set, as the
	// kernel reports them: the first is KILL, SETGID and SETUID, the other empty.
	Caps, Bounding uint64
	// NoNewPrivs is whether the kernel refuses programs new privileges.
	NoNewPrivs bool
	// Seccomp is the kernel's mode: 2 is filtered.
	Seccomp int
	// MemoryLimit and PidsLimit are the container's, 0 when it has none or does not say.
	MemoryLimit, PidsLimit int64
}
