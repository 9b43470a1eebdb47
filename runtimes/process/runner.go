package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/caisson-run/caisson/internal/pluginwire"
)

// launch starts the process for go-plugin. It shows go-plugin nothing of the
// process but one verified handshake line: its own reading of log lines panics
// on some of them, and its reading of standard output stops at long ones.
type launch struct {
	spec    Spec
	bin     *binary
	sockets *socketDir
	logs    *bridge
	kept    *keptLog // of a kept process, else nil
	cmd     *exec.Cmd

	shake *handshake

	mu    sync.Mutex
	proc  *child
	ended bool // killed before it began
}

// make is go-plugin's RunnerFunc.
func (r *launch) make(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
	r.cmd = exec.Command(r.bin.path)
	r.cmd.Args = []string{r.spec.Path}
	r.cmd.Dir = "/" // never the host's, which may move or be secret
	r.cmd.Env = r.environment(cmd.Env)
	return adapter{r}, nil
}

// environment is the allow-list, what go-plugin's handshake needs, and ours.
func (r *launch) environment(fromGoPlugin []string) []string {
	level := r.logs.log.GetLevel()
	if level == hclog.Off {
		level = hclog.Warn // kept for ExitCause
	}
	env := append([]string{}, r.spec.Env...)
	for _, kv := range fromGoPlugin {
		if !strings.HasPrefix(kv, "PLUGIN_UNIX_SOCKET_DIR=") {
			env = append(env, kv)
		}
	}
	return append(env,
		"PLUGIN_UNIX_SOCKET_DIR="+r.sockets.path,
		r.life(),
		pluginwire.EnvLogLevel+"="+level.String(),
	)
}

// life is the variable that says how long the process lives.
func (r *launch) life() string {
	if r.kept != nil {
		return pluginwire.EnvKeep + "=" + r.spec.Keep.For.String()
	}
	return pluginwire.EnvHostPID + "=" + strconv.Itoa(os.Getpid())
}

func (r *launch) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return errors.New("canceled")
	}
	r.shake = newHandshake(r.sockets.check, r.logs)
	c, err := spawn(r.cmd, r.bin, r.shake, r.logs.writer(), r.kept)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// The file itself is open: what is missing is what would load it.
		return fmt.Errorf("execute %s: its loader or interpreter is missing on this machine, or /proc is not mounted: %w", r.spec.Path, withoutPath(err))
	case err != nil:
		return fmt.Errorf("execute %s: %w", r.spec.Path, withoutPath(err))
	}
	r.proc = c
	return nil
}

// withoutPath drops the descriptor's path from an error of exec: it says nothing.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (r *launch) started() *child {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc
}

// kill ends the process, and one that was not started yet never will be.
func (r *launch) kill() {
	r.mu.Lock()
	r.ended = true
	c := r.proc
	r.mu.Unlock()
	if c != nil {
		c.kill()
	}
}

// explain turns a failed start into what an operator needs to know. The process,
// if there was one, has ended.
func (r *launch) explain(ctx context.Context, err error) error {
	c := r.started()
	if c == nil {
		return err
	}
	found, stray, bad := r.shake.outcome()
	switch e := c.exit(); {
	case bad != nil:
		err = bad
	case !found && e.byItself():
		err = fmt.Errorf("%s before it was ready", e)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case !found:
		err = errors.New("it closed its standard output without a handshake")
	}
	if stray != "" && !found {
		err = fmt.Errorf("%w; is it a Caisson plugin? It printed %q", err, clip(stray, 200))
	} else if last := r.logs.lastWords(); last != "" {
		err = fmt.Errorf("%w; its last words: %s", err, last)
	}
	return err
}

func (r *launch) dial(ctx context.Context, _ string) (net.Conn, error) {
	address := r.shake.address()
	if err := r.sockets.check("unix", address); err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn.(*net.UnixConn), r.started().pid); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// adapter is the runner as go-plugin wants it.
type adapter struct{ r *launch }

var _ runner.Runner = adapter{}

func (a adapter) Start(ctx context.Context) error { return a.r.start(ctx) }

func (a adapter) Wait(context.Context) error {
	<-a.r.started().exited
	return nil
}

// Kill does nothing: whenever go-plugin would kill, its start has failed, and
// start ends the process after it has looked at how it ended by itself.
func (a adapter) Kill(context.Context) error { return nil }

func (a adapter) Stdout() io.ReadCloser           { return a.r.shake.reader() }
func (a adapter) Stderr() io.ReadCloser           { return io.NopCloser(strings.NewReader("")) }
func (a adapter) Name() string                    { return a.r.spec.Name }
func (a adapter) Diagnose(context.Context) string { return "" }

func (a adapter) ID() string {
	if c := a.r.started(); c != nil {
		return strconv.Itoa(c.pid)
	}
	return ""
}

func (a adapter) PluginToHost(network, address string) (string, string, error) {
	return network, address, a.r.sockets.check(network, address)
}

func (a adapter) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}
