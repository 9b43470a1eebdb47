package sandboxes

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

const (
	// openTime bounds the making of a connection to an agent.
	openTime = 20 * time.Second
	// retryAgent is how long a container is worked with plainly before its agent is
	// tried again.
	retryAgent = 30 * time.Second
)

// agent returns the connection to the agent, or nil where the container has to do
// without one: none was built for its engine, or it does not start. That is logged
// once each time it is tried.
func (x *box) agent(ctx context.Context, op string) (*agentclient.Client, error) {
	if x.build == "" {
		return nil, nil
	}
	if cl, settled := x.current(); settled {
		return cl, nil
	}
	select {
	case x.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-x.opening }()
	if cl, settled := x.current(); settled {
		return cl, nil
	}
	cl, err := x.open(ctx)
	if err == nil {
		x.mu.Lock()
		if x.closed {
			x.mu.Unlock()
			_ = cl.Close()
			return nil, engine.Errorf(backend.KindUnavailable, op, backend.SubjectConfig, "the config was closed")
		}
		x.client = cl
		x.mu.Unlock()
		return cl, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// Without an engine, or in a container that is gone or stopped, nothing else
	// would work either.
	if err := x.standing(ctx, op); err != nil {
		return nil, err
	}
	x.b.o.Log.Warn("a container works without its agent, slower", "container", x.container[:12], "error", err, "relay", x.said())
	x.mu.Lock()
	x.without = x.b.o.Now().Add(retryAgent)
	x.mu.Unlock()
	return nil, nil
}

// current is the connection that is there; settled is false when one has to be made.
func (x *box) current() (cl *agentclient.Client, settled bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client != nil {
		select {
		case <-x.client.Done():
			x.client = nil
		default:
			return x.client, true
		}
	}
	return nil, x.b.o.Now().Before(x.without)
}

// open connects, bringing the agent's program along where it is not there: after an
// upgrade, or when somebody removed it.
func (x *box) open(ctx context.Context) (*agentclient.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	var last error
	for attempt := range 2 {
		if !x.placed || attempt > 0 {
			if err := x.place(ctx); err != nil {
				return nil, errors.Join(last, err)
			}
		}
		// The sandbox's environment goes with each request: this container may be
		// nobody's yet.
		cl, err := agentclient.Open(ctx, x.dial, agentclient.Options{Build: x.build, CopyFrom: x.copyFrom})
		if err == nil {
			return cl, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// place puts the agent's program into the container.
func (x *box) place(ctx context.Context) error {
	info, err := x.c.eng.Info(ctx)
	if err != nil {
		return err
	}
	digest, program, err := x.b.agents.find(info.Architecture)
	if err != nil {
		return err
	}
	if digest != x.build {
		return errAgent
	}
	a := newArchive(x.b.o.Now())
	a.dir(ownDir, 0o755, 0, 0)
	a.file(agentclient.ProgramPath(digest), 0o755, program)
	if err := x.c.eng.Client(ctx).CopyToContainer(ctx, x.container, "/", a.reader(), container.CopyToContainerOptions{}); err != nil {
		return err
	}
	x.placed = true
	return nil
}

// dial connects with the agent: through its socket where that is mounted, else
// through a relay that the engine starts.
func (x *box) dial(ctx context.Context) (io.ReadWriteCloser, error) {
	if x.socket != "" {
		return x.dialSocket(ctx)
	}
	pipe, err := x.c.eng.Open(ctx, engine.Command{
		Container: x.container, User: "0:0", Dir: "/", Argv: agentclient.RelayCommand(x.build),
	})
	if err != nil {
		return nil, err
	}
	x.pipe.Store(pipe)
	return pipe, nil
}

// said is what the relay complained of last.
func (x *box) said() string {
	if pipe := x.pipe.Load(); pipe != nil {
		return pipe.Said()
	}
	return ""
}

// socketName is the agent's socket in the mounted directory.
const socketName = "agent"

func (x *box) dialSocket(ctx context.Context) (io.ReadWriteCloser, error) {
	path := filepath.Join(x.socket, socketName)
	var d net.Dialer
	if conn, err := d.DialContext(ctx, "unix", path); err == nil {
		return conn, nil
	}
	var said strings.Builder
	keep := func(p []byte) error {
		said.Write(p[:min(len(p), max(0, 500-said.Len()))])
		return nil
	}
	code, err := x.c.eng.Exec(ctx, engine.Command{
		Container: x.container, User: "0:0", Dir: "/",
		Argv: agentclient.ListenCommand(x.build, socketDir+"/"+socketName, os.Getuid()),
	}, engine.Streams{Stdout: keep, Stderr: keep})
	if err != nil {
		return nil, err
	}
	if code != 0 {
		return nil, errors.New("the agent does not listen: " + said.String())
	}
	return d.DialContext(ctx, "unix", path)
}

// copyFrom opens a file of another sandbox of the same config, for the agent.
func (x *box) copyFrom(ctx context.Context, src backend.CopySource) (io.ReadCloser, backend.Entry, error) {
	return x.b.ReadFile(ctx, backend.Ref{Config: x.c.id, ID: src.ID}, src.Path)
}
