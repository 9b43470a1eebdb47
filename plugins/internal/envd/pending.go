package envd

import (
	"context"
	"net"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// What follows is not written yet: the signatures are what plugins build on.

type detachedRuns struct{}

func (*detachedRuns) close() {}

func (c *Client) unfinished(op string) error {
	return c.fail(op, backend.KindUnsupported, "not written yet")
}

// Metrics is what the daemon says of the sandbox as a machine.
type Metrics struct {
	At                       time.Time
	CPUs                     int
	CPUPercent               float64
	MemoryTotal, MemoryUsed  int64
	DiskTotalBytes, DiskUsed int64
}

// Metrics reads them.
func (c *Client) Metrics(ctx context.Context, ref backend.Ref) (Metrics, error) {
	return Metrics{}, c.unfinished("Metrics")
}

func (c *Client) Watch(ctx context.Context, ref backend.Ref, root string, recursive bool, fn func(backend.WatchEvent) error) error {
	return c.unfinished("Watch")
}

func (c *Client) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	return nil, c.unfinished("OpenTerminal")
}

// DialPort returns a connection that speaks HTTP/1.1 to a port of the sandbox,
// upgrades included: gateways route by HTTP host, so that nothing else gets through.
func (c *Client) DialPort(ctx context.Context, ref backend.Ref, port int) (net.Conn, error) {
	return nil, c.unfinished("DialPort")
}

// DialWebSocket returns the bytes of a binary WebSocket that a port of the sandbox
// serves at path, as websockify does for a desktop. It offers the one subprotocol and
// refuses a server that does not choose it. header is added to the handshake; ctx
// bounds the dialling only.
func (c *Client) DialWebSocket(ctx context.Context, ref backend.Ref, port int, path, subprotocol string, header map[string]string) (net.Conn, error) {
	return nil, c.unfinished("DialPort")
}

func (c *Client) StartRun(ctx context.Context, spec backend.DetachedStart, live backend.RunIO) error {
	return c.unfinished("StartRun")
}

func (c *Client) AttachRun(ctx context.Context, ref backend.Ref, runID string, live backend.RunIO) (backend.RunResult, error) {
	return backend.RunResult{}, c.unfinished("AttachRun")
}

func (c *Client) KillRun(ctx context.Context, ref backend.Ref, runID string) error {
	return c.unfinished("KillRun")
}
