// Package process runs backend plugins as subprocesses and talks to them over
// gRPC on a private unix socket.
//
// It owns what go-plugin leaves open: which file is executed, what the process
// may see, where it listens, how long every step may take, and that nothing of
// it is left behind, whatever it does. It starts one process and stops it; it
// does not restart, choose, configure or share it. That is the host's.
//
// What ends is the process group. A descendant that left it (setsid) lives on: no
// group of control is had without privileges, and some plugins' sandboxes are meant to.
// It holds nothing up, and cannot answer in the plugin's place.
//
// On Linux a plugin dies with its host, and the verified file itself is executed
// rather than its path. Elsewhere the plugin watches for its host (see
// backend.Serve), and the file must not be replaced between check and start.
// Windows is not supported: plugins listen on unix sockets.
package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/caisson-run/caisson/internal/pluginwire"
	"github.com/caisson-run/caisson/sdk/backend"
)

// DefaultStartTimeout is what Spec.StartTimeout means by zero.
const DefaultStartTimeout = 10 * time.Second

// Spec says what to run.
type Spec struct {
	// Name is the plugin's, for errors and logs.
	Name string
	// Path of the program: a regular file, executable, owned by root or by this
	// user, and writable by its owner only.
	Path string
	// SHA256 of the file in lower-case hex; empty accepts any content.
	SHA256 string
	// AllowWritable accepts a file that others may write.
	AllowWritable bool
	// Env is all the plugin sees of an environment, as NAME=value, beside what
	// the handshake needs. Nothing of the host's passes by itself, so that PATH,
	// HOME and TMPDIR are unset unless listed.
	Env []string
	// SocketRoot is an existing directory for the plugin's private socket
	// directory; empty means the system's temporary directory. Its path must be
	// short: a socket's path ends at 107 bytes (103 on BSD systems).
	SocketRoot string
	// StartTimeout bounds everything until the plugin answers its first call;
	// zero means DefaultStartTimeout.
	StartTimeout time.Duration
	// Log receives what the plugin logs and what happens to it; nil is silence.
	Log hclog.Logger
	// Observe is told of every call that is over, from many goroutines; nil tells
	// nobody. Calls wait for it: it must be quick.
	Observe func(Call)
	// Keep lets the process live on when its host dies; the zero value does not.
	Keep Keep
}

// reserved are variables that an allow-list must not set.
func reserved(name string) bool {
	return strings.HasPrefix(name, "PLUGIN_") || slices.Contains([]string{
		pluginwire.Handshake().MagicCookieKey, pluginwire.EnvHostPID, pluginwire.EnvKeep, pluginwire.EnvLogLevel,
	}, name)
}

func (s *Spec) check() error {
	if s.Name == "" || s.Path == "" {
		return errors.New("name and path are required")
	}
	for _, kv := range s.Env {
		name, _, ok := strings.Cut(kv, "=")
		switch {
		case !ok || name == "" || strings.IndexByte(kv, 0) >= 0:
			return fmt.Errorf("env: %q is not NAME=value", name)
		case reserved(name):
			return fmt.Errorf("env: %s is reserved", name)
		}
	}
	if s.StartTimeout < 0 {
		return errors.New("start timeout is negative")
	}
	return s.Keep.check()
}

// Process is one running plugin. All methods are safe for concurrent use.
type Process struct {
	name    string
	log     hclog.Logger
	child   *child
	logs    *bridge
	conn    *grpc.ClientConn
	backend backend.Backend
	sockets *socketDir
	kept    *kept // nil unless it may outlive its host

	stopping chan struct{} // closed by the first Stop
	stopOnce sync.Once
	done     chan struct{} // closed once nothing is left
}

// Start starts a plugin and waits until it answers. ctx bounds the start only,
// together with Spec.StartTimeout: the process lives until Stop. On error
// nothing is left of it; the error names the plugin, what happened, and the last
// thing that the plugin logged.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	p, err := start(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("plugin %q: start: %w", spec.Name, err)
	}
	return p, nil
}

func start(ctx context.Context, spec Spec) (*Process, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	timeout := spec.StartTimeout
	if timeout == 0 {
		timeout = DefaultStartTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not ready within %v", timeout))
	defer cancel()
	log := spec.Log
	if log == nil {
		log = hclog.NewNullLogger()
	}

	bin, err := openBinary(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer bin.close()
	root, prefix := spec.SocketRoot, socketPrefix
	if spec.Keep.For > 0 {
		root, prefix = "", keptPrefix // what the host has is swept when it dies
	}
	sockets, err := makeSocketDir(root, prefix)
	if err != nil {
		return nil, err
	}

	p := &Process{
		name: spec.Name, log: log, sockets: sockets,
		logs:     newBridge(log.Named(spec.Name)),
		stopping: make(chan struct{}), done: make(chan struct{}),
	}
	run := &launch{spec: spec, bin: bin, sockets: sockets, logs: p.logs}
	if spec.Keep.For > 0 {
		if p.kept, err = beginKept(spec, bin, sockets); err != nil {
			p.release()
			return nil, err
		}
		run.kept = p.kept.log
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  pluginwire.Handshake(),
		Plugins:          pluginwire.Plugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		RunnerFunc:       run.make,
		SkipHostEnv:      true,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: sockets.path},
		StartTimeout:     timeout,
		Logger:           hclog.NewNullLogger(),
	})
	err = p.handshake(ctx, client, run)
	p.child = run.started()
	if err == nil {
		err = p.connect(ctx, run)
	}
	if err == nil && p.kept != nil {
		err = p.kept.serves(p.child.pid, run.shake.address())
	}
	if err != nil {
		if p.child != nil {
			p.child.linger(ctx, exitTime) // how it ends by itself says more
			p.child.kill()
			<-p.child.exited
		}
		p.release()
		return nil, run.explain(ctx, err)
	}
	go p.watch()
	go p.collect()
	return p, nil
}

// handshake executes the program and learns where it listens. go-plugin's part
// cannot be interrupted, but it ends with the process.
func (p *Process) handshake(ctx context.Context, client *plugin.Client, run *launch) error {
	shaken := make(chan error, 1)
	go func() {
		_, err := client.Start()
		shaken <- err
	}()
	select {
	case err := <-shaken:
		return err
	case <-ctx.Done():
		run.kill()
		<-shaken
		return context.Cause(ctx)
	}
}

// connect makes the connection and the first call over it. It does so without
// go-plugin, whose client adds a broker and a stream for standard output that
// nobody uses, and leaks both when the plugin dies meanwhile.
func (p *Process) connect(ctx context.Context, run *launch) error {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a private directory, and the peer is checked
		grpc.WithContextDialer(run.dial),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
	}
	if run.spec.Observe != nil {
		options = append(options, grpc.WithStatsHandler(observer(run.spec.Observe)))
	}
	conn, err := grpc.NewClient("passthrough:///plugin", options...)
	if err != nil {
		return err
	}
	p.conn, p.backend = conn, backend.NewClient(conn)
	_, err = grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("first call: %s", status.Convert(err).Message())
	}
	return nil
}

// Backend returns the plugin's backend. Once the process has ended its methods
// fail with backend.KindUnavailable.
func (p *Process) Backend() backend.Backend { return p.backend }

// PID is the process id.
func (p *Process) PID() int { return p.child.pid }

// Done is closed when the process has ended, for whatever reason, and everything
// that served it is released.
func (p *Process) Done() <-chan struct{} { return p.done }

// Dead is closed as soon as the process has ended: before Done, which waits until
// what it wrote has been read.
func (p *Process) Dead() <-chan struct{} { return p.child.dead }

// Serving is false from the moment the connection breaks, which is when the first
// call in flight fails and a little before Dead. It is never true again.
func (p *Process) Serving() bool {
	select {
	case <-p.child.dead:
		return false
	default:
		return p.conn.GetState() == connectivity.Ready
	}
}

// watch ends a process that has let go of its connection and lives on: there is
// no way back to it.
func (p *Process) watch() {
	for p.conn.GetState() == connectivity.Ready {
		p.conn.WaitForStateChange(context.Background(), connectivity.Ready) // release closes conn
	}
	timer := time.NewTimer(lostTime)
	defer timer.Stop()
	select {
	case <-p.child.dead:
	case <-timer.C:
		p.child.kill()
	}
}

// Lines are the last that the plugin logged so far, oldest first, at most 200.
func (p *Process) Lines() []string { return p.logs.lastLines() }

// Dropped returns how many log lines were dropped because the plugin logged
// more than its budget.
func (p *Process) Dropped() int64 { return p.logs.droppedTotal() }
