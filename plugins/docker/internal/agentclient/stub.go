package agentclient

import (
	"context"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Client is a connection to the agent of one sandbox. It is safe for concurrent use;
// requests share the connection without waiting for each other, except that runs of
// one sandbox follow each other. The Ref in requests is not looked at: a client is
// about one sandbox. Methods that are those of backend.Backend mean what they mean there.
type Client struct{}

// Open dials and shakes hands. It fails with a KindUnavailable where nothing answers,
// and with a KindUnsupported where the answer is not that of an agent or its protocol is
// another. ctx bounds the opening only.
func Open(ctx context.Context, dial Dialer, opts Options) (*Client, error) { return nil, errSoon }

// Close ends the connection and fails what is under way. The agent stays; foreground
// runs that were under way end after Options.Rejoin.
func (c *Client) Close() error { return nil }

// Done is closed when the connection is gone for good; Err then says why.
func (c *Client) Done() <-chan struct{} { return nil }
func (c *Client) Err() error            { return errSoon }

// Agent describes the other side.
func (c *Client) Agent() Agent { return Agent{} }

// Busy reports how many runs, commands and terminals the agent has under way, detached
// ones included. It is a round trip, and serves as a health check.
func (c *Client) Busy(ctx context.Context) (int, error) { return 0, errSoon }

// LastActive is when anything last used the agent, programs included, by the age that
// the agent reports. It is a round trip that does not count as use.
func (c *Client) LastActive(ctx context.Context) (time.Time, error) { return time.Time{}, errSoon }

func (c *Client) Run(ctx context.Context, spec backend.RunSpec, live backend.RunIO) (backend.RunResult, error) {
	return backend.RunResult{}, errSoon
}

func (c *Client) Exec(ctx context.Context, req backend.ExecRequest) (backend.ExecResult, error) {
	return backend.ExecResult{}, errSoon
}

func (c *Client) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	return backend.WalkResult{}, errSoon
}

func (c *Client) ReadFile(ctx context.Context, path string) (io.ReadCloser, backend.Entry, error) {
	return nil, backend.Entry{}, errSoon
}

func (c *Client) WriteFile(ctx context.Context, path string, opts backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	return backend.Entry{}, errSoon
}

func (c *Client) Stat(ctx context.Context, path string) (backend.Entry, error) {
	return backend.Entry{}, errSoon
}

func (c *Client) ListDir(ctx context.Context, path string) ([]backend.Entry, error) {
	return nil, errSoon
}
func (c *Client) MakeDir(ctx context.Context, path string) error { return errSoon }
func (c *Client) Remove(ctx context.Context, path string) error  { return errSoon }

func (c *Client) Watch(ctx context.Context, path string, recursive bool, fn func(backend.WatchEvent) error) error {
	return errSoon
}

func (c *Client) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	return nil, errSoon
}

func (c *Client) DialPort(ctx context.Context, port int) (net.Conn, error) { return nil, errSoon }

func (c *Client) StartRun(ctx context.Context, spec backend.DetachedStart, live backend.RunIO) error {
	return errSoon
}

func (c *Client) AttachRun(ctx context.Context, runID string, live backend.RunIO) (backend.RunResult, error) {
	return backend.RunResult{}, errSoon
}
func (c *Client) KillRun(ctx context.Context, runID string) error { return errSoon }

var errSoon = backend.Errorf(backend.KindUnsupported, "", "the agent is not there yet")
