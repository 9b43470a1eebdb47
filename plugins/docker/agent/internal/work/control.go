//go:build linux

package work

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/control"
)

// CallName is the name under which the agent's program makes one call of a run.
const CallName = "caisson-call"

// socketName is the channel in a run's directory for calls.
const socketName = "control"

// offer makes the channel of a run that makes calls, in a directory that only the run's
// user enters, and returns what its program is told. stop ends everything.
func (r *running) offer(ctx context.Context, cancel context.CancelCauseFunc, clock *control.Clock) (env []agentwire.Pair, stop func(), err error) {
	if r.calls == nil {
		return nil, func() {}, nil
	}
	uid := r.lease.UID
	if !kernel.KnowsPeers(uid, r.host.FS.GID) {
		return nil, nil, &agentwire.Fault{
			Kind: "unsupported", Subject: "run", Text: "programs can make no calls: the sandbox's kernel does not say which of them connects",
		}
	}
	dir, err := r.host.programDir(uid)
	if err != nil {
		return nil, nil, fmt.Errorf("make a directory for calls: %w", err)
	}
	l, err := r.host.listen(uid, dir)
	if err != nil {
		r.host.removeProgramDir(uid, dir)
		return nil, nil, fmt.Errorf("make the channel for calls: %w", err)
	}
	gone := func(error) { cancel(&ended{stopCanceled, "nobody answers calls any more"}) }
	calls := control.NewRun(ctx, control.Config{Call: r.calls.call, Clock: clock, Gone: gone})
	serving, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		if err := calls.ServeListener(serving, l); err != nil {
			gone(err)
		}
	})
	all.Go(func() {
		control.Beside{
			Used:  func() (time.Duration, error) { return r.host.used(r.lease), nil },
			Limit: r.spec.Beside,
			Expire: func() {
				cancel(&ended{stopCPU, fmt.Sprintf("the limit of %v of processor time beside open calls is used up", r.spec.Beside)})
			},
		}.Watch(serving, calls)
	})
	env = []agentwire.Pair{
		{Name: control.EnvPath, Value: filepath.Join(dir, socketName)}, {Name: control.EnvCall, Value: filepath.Join(dir, CallName)},
	}
	return env, func() {
		r.calls.end()
		end()
		calls.Close()
		all.Wait()
		r.host.removeProgramDir(uid, dir)
	}, nil
}

// listen makes the socket and, under another name, the agent's program.
func (h *Host) listen(uid int, dir string) (net.Listener, error) {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, socketName)
	var l *net.UnixListener
	err = kernel.As(uid, h.FS.GID, func() error {
		if err := os.Symlink(exe, filepath.Join(dir, CallName)); err != nil {
			return err
		}
		var err error
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
			return err
		}
		l.SetUnlinkOnClose(false) // the agent may not, and the directory goes
		return unix.Chmod(path, 0o600)
	})
	if err != nil {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
		return nil, err
	}
	return private{l, uid}, nil
}

// private accepts connections of one user only.
type private struct {
	*net.UnixListener
	uid int
}

func (l private) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if who, err := kernel.Peer(c); err == nil && int(who.Uid) == l.uid {
			return c, nil
		}
		_ = c.Close()
	}
}

// used is the processor time of all that runs, and has run, as a lease's user.
func (h *Host) used(l *Lease) time.Duration {
	cpu, _, _ := l.used()
	for _, p := range kernel.Processes() {
		if p.UID == l.UID {
			cpu += kernel.CPU(p.PID)
		}
	}
	return cpu
}
