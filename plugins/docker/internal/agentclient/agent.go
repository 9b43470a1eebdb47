package agentclient

import "time"

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
