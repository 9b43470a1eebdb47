package agentclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Options of a Client.
type Options struct {
	// Build is what the agent should be, the hex SHA-256 of its program; Client.Agent
	// tells what it is. Empty takes any.
	Build string
	// Env is the sandbox's environment beside that of the container (what the image and
	// the container's creation say), which runs add to. Where neither has them, programs
	// have PATH, USER and LOGNAME (the session's user has an entry in the container's
	// /etc/passwd where that can be written); HOME is /tmp unless Env has it.
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

const (
	defaultRejoin = 15 * time.Second
	// keepAlive is how often a silent connection is tried, and tryPatience how long an
	// answer may take.
	keepAlive   = time.Minute
	tryPatience = 20 * time.Second
	// openTime is how long one attempt to connect may take: others wait for it.
	openTime = 20 * time.Second
	// Between attempts to take a run over, while an engine is being restarted.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// Client is a connection to the agent of one sandbox. It is safe for concurrent use;
// requests share the connection without waiting for each other, except that runs of
// one sandbox follow each other. The Ref in requests is not looked at: a client is
// about one sandbox. Methods that are those of backend.Backend mean what they mean there.
//
// When the connection breaks, requests that are under way fail, except for runs, which
// are taken over; the next request dials again. Once that fails the client is done.
type Client struct {
	dial Dialer
	opts Options

	dialing chan struct{} // holds a token while nobody dials

	mu    sync.Mutex
	conn  *agentwire.Conn
	agent Agent
	err   error
	done  chan struct{}
	alive sync.WaitGroup
}

// Open dials and shakes hands. It fails with a KindUnavailable where nothing answers,
// and with a KindUnsupported where what answers is no agent or speaks another protocol.
// ctx bounds the opening only.
func Open(ctx context.Context, dial Dialer, opts Options) (*Client, error) {
	if opts.Rejoin == 0 {
		opts.Rejoin = defaultRejoin
	}
	c := &Client{dial: dial, opts: opts, dialing: make(chan struct{}, 1), done: make(chan struct{})}
	c.dialing <- struct{}{}
	if _, err := c.connect(ctx, false); err != nil {
		return nil, convert(ctx, "Open", err)
	}
	c.alive.Go(c.keepAlive)
	return c, nil
}

// Close ends the connection and fails what is under way. The agent stays; foreground
// runs that were under way end after Options.Rejoin.
func (c *Client) Close() error {
	c.fail(agentwire.ErrClosed)
	c.alive.Wait()
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	return conn.Close()
}

// Done is closed when the client was closed, or could not dial again.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why Done is closed.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Agent describes the other side, as of the last dial.
func (c *Client) Agent() Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agent
}

func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	close(c.done)
	if c.conn != nil {
		c.conn.Fail(err)
	}
}

// connect returns the connection, a new one where the last has ended. When that fails the
// client is done; patient tries until ctx ends.
func (c *Client) connect(ctx context.Context, patient bool) (*agentwire.Conn, error) {
	if conn, err := c.current(); conn != nil || err != nil {
		return conn, err
	}
	select {
	case <-c.dialing:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.done:
		return nil, c.lost(c.Err())
	}
	defer func() { c.dialing <- struct{}{} }()
	if conn, err := c.current(); conn != nil || err != nil {
		return conn, err
	}
	conn, agent, err := c.shake(ctx)
	for pause := firstPause; err != nil && patient && ctx.Err() == nil && c.Err() == nil; pause = min(2*pause, lastPause) {
		select {
		case <-time.After(pause):
			conn, agent, err = c.shake(ctx)
		case <-ctx.Done():
		case <-c.done:
		}
	}
	if err != nil {
		if ctx.Err() == nil || patient { // else it says nothing about the agent
			c.fail(err)
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil { // closed meanwhile
		conn.Fail(c.err)
		return nil, c.lost(c.err)
	}
	c.conn, c.agent = conn, agent
	return conn, nil
}

func (c *Client) current() (*agentwire.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.lost(c.err)
	}
	if c.conn != nil && c.conn.Err() == nil {
		return c.conn, nil
	}
	return nil, nil
}

func (c *Client) lost(err error) error { return fmt.Errorf("%w: %w", ErrLost, err) }

// errDeaf is an agent that hears, and does not answer.
var errDeaf = errors.New("the agent does not answer")

// shake is one attempt to connect.
func (c *Client) shake(ctx context.Context) (*agentwire.Conn, Agent, error) {
	own, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	conn, agent, err := shake(own, c.dial)
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		err = errDeaf // its time was over, not the caller's
	}
	return conn, agent, err
}

// shake dials, and returns once the agent has described itself.
func shake(ctx context.Context, dial Dialer) (*agentwire.Conn, Agent, error) {
	rw, err := dial(ctx)
	if err != nil {
		return nil, Agent{}, err
	}
	// What is closed does not answer.
	stop := context.AfterFunc(ctx, func() { _ = rw.Close() })
	defer stop()
	hello, err := agentwire.ReadPreamble(rw)
	if err == nil && hello.Protocol != agentwire.Protocol {
		err = backend.Errorf(backend.KindUnsupported, "", "the agent speaks protocol %d, not %d", hello.Protocol, agentwire.Protocol)
	}
	if err == nil {
		_, err = rw.Write(agentwire.Preamble{Protocol: agentwire.Protocol}.Append(nil))
	}
	if err != nil {
		_ = rw.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if errors.Is(err, agentwire.ErrProtocol) {
			err = backend.Errorf(backend.KindUnsupported, "", "%w", err)
		}
		return nil, Agent{}, err
	}
	conn := agentwire.NewClient(rw)
	var m agentwire.Status
	if err := exchange(ctx, conn, agentwire.OpStatus, &agentwire.Empty{}, &m, nil); err != nil {
		_ = conn.Close()
		return nil, Agent{}, err
	}
	return conn, Agent{
		Build: hello.Build, Protocol: hello.Protocol, Started: m.Started, UID: m.UID, GID: m.GID,
		Caps: m.Caps, Bounding: m.Bounding, NoNewPrivs: m.NoNewPrivs, Seccomp: m.Seccomp,
		MemoryLimit: m.MemoryLimit, PidsLimit: m.PidsLimit,
	}, nil
}

// keepAlive finds out when a silent connection is dead.
func (c *Client) keepAlive() {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		conn, err := c.current()
		if conn == nil || err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), tryPatience)
		if err := exchange(ctx, conn, agentwire.OpStatus, &agentwire.Empty{}, &agentwire.Status{}, nil); err != nil {
			conn.Fail(errDeaf)
		}
		cancel()
	}
}

// Status is what the agent has under way, and what it holds itself.
type Status struct {
	// Busy counts runs, commands and terminals, detached ones included; Idle is how long
	// nothing has used the agent, 0 while something is under way.
	Busy int
	Idle time.Duration
	// Goroutines, Descriptors and Children are the agent's own; Children includes the two
	// processes that wait to become programs, and the dead that nobody waited for.
	Goroutines, Descriptors, Children int
}

// Status asks the agent. It serves as a health check, and does not count as use.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var m agentwire.Status
	if err := c.call(ctx, "Status", agentwire.OpStatus, &agentwire.Empty{}, &m, nil); err != nil {
		return Status{}, err
	}
	return Status{m.Busy, m.Idle, m.Goroutines, m.Descriptors, m.Children}, nil
}
