package process

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
)

// The steps of a stop. Together they bound it.
const (
	shutdownTime = 2 * time.Second // after the plugin was asked to end
	termTime     = time.Second     // after SIGTERM
	killTime     = 5 * time.Second // after SIGKILL: only the kernel can be in the way
)

// lostTime is how long a process may live without its connection: longer than an
// orderly end after SIGTERM takes (sdk/backend).
const lostTime = 5 * time.Second

// exitTime is what a process whose start failed gets to end by itself.
const exitTime = 250 * time.Millisecond

// shutdownMethod is go-plugin's, whose generated code is internal. Its messages
// are empty.
const shutdownMethod = "/plugin.GRPCController/Shutdown"

// Stop ends the process and everything it left: it asks, then sends SIGTERM,
// then SIGKILL to the whole process group, and removes the socket directory. It
// takes at most 8 s whatever the plugin does, a stopped (SIGSTOP) one included;
// when ctx ends it goes straight to SIGKILL. Calls in flight fail: whoever wants
// them to finish waits before. Stopping a stopped process is success. The error
// says that the process could not be killed.
func (p *Process) Stop(ctx context.Context) error {
	p.stopOnce.Do(func() { close(p.stopping) })
	if p.ask(ctx) {
		return nil
	}
	p.child.signal(syscall.SIGTERM)
	if p.gone(ctx, termTime) {
		return nil
	}
	p.child.kill()
	if p.gone(context.WithoutCancel(ctx), killTime) {
		return nil
	}
	return fmt.Errorf("plugin %q: stop: process %d does not end", p.name, p.child.pid)
}

// ask sends the plugin an orderly request and reports whether it followed.
func (p *Process) ask(ctx context.Context) bool {
	select {
	case <-p.done:
		return true
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, shutdownTime)
	defer cancel()
	// The plugin cuts the connection to answer: the error says nothing.
	_ = p.conn.Invoke(ctx, shutdownMethod, &emptypb.Empty{}, &emptypb.Empty{})
	return p.gone(ctx, shutdownTime)
}

// gone waits for the end, at most that long.
func (p *Process) gone(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// collect waits for the end of the process and releases what served it.
func (p *Process) collect() {
	<-p.child.exited
	p.release()
	e := p.child.exit()
	select {
	case <-p.stopping:
		p.log.Debug("plugin stopped", "plugin", p.name, "pid", p.child.pid, "exit", e.String())
	default:
		p.log.Error("plugin ended by itself", "plugin", p.name, "pid", p.child.pid, "exit", e.String())
	}
	close(p.done)
}

func (p *Process) release() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	p.sockets.remove()
	p.kept.remove()
	p.logs.close()
}

// Exit reports how the process ended and the last lines that it logged, oldest
// first, at most 200. ok is false while it runs.
func (p *Process) Exit() (exit Exit, lastLines []string, ok bool) {
	select {
	case <-p.done:
		return p.child.exit(), p.logs.lastLines(), true
	default:
		return Exit{}, nil, false
	}
}

// ExitCause is one line for people: how the process ended and its last words,
// empty while it runs.
func (p *Process) ExitCause() string {
	exit, _, ok := p.Exit()
	if !ok {
		return ""
	}
	cause := exit.String()
	if last := p.logs.lastWords(); last != "" {
		cause += "; its last words: " + last
	}
	return cause
}
