//go:build linux

// Package relay connects the plugin with the agent of a container, and sees to it that
// there is one of the right build.
package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/setup"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
)

const (
	// startPatience is how long an agent may take until it answers.
	startPatience = 10 * time.Second
	// endPatience is how long one that is replaced may take to end.
	endPatience = 8 * time.Second
)

// Connect returns a connection to the agent, and the preamble that it sent. It starts an
// agent where none answers, and replaces one of another build unless that is busy and
// speaks the same protocol.
func Connect(build string) (*net.UnixConn, agentwire.Preamble, error) {
	dirs, err := setup.OpenDirs()
	if err != nil {
		return nil, agentwire.Preamble{}, err
	}
	c, hello, err := dial(dirs)
	if err == nil && suits(hello, build) {
		return c, hello, nil
	}
	if c != nil {
		_ = c.Close()
	}
	// One at a time: who comes second finds what the first has started.
	unlock, err := lock(dirs.Lock("start"))
	if err != nil {
		return nil, agentwire.Preamble{}, err
	}
	defer unlock()
	c, hello, err = dial(dirs)
	if err == nil {
		if suits(hello, build) {
			return c, hello, nil
		}
		err = retire(c, hello)
		_ = c.Close()
		if errors.Is(err, errBusy) { // since we looked
			return dial(dirs)
		}
		if err != nil {
			return nil, agentwire.Preamble{}, err
		}
	}
	if err := start(dirs); err != nil {
		return nil, agentwire.Preamble{}, err
	}
	return dial(dirs)
}

// suits reports whether an agent is to be used as it is.
func suits(hello agentwire.Preamble, build string) bool {
	return hello.Protocol == agentwire.Protocol && (hello.Build == build || hello.Busy)
}

func dial(dirs setup.Dirs) (*net.UnixConn, agentwire.Preamble, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: dirs.Socket(), Net: "unix"})
	if err != nil {
		return nil, agentwire.Preamble{}, err
	}
	_ = c.SetReadDeadline(time.Now().Add(startPatience))
	hello, err := agentwire.ReadPreamble(c)
	_ = c.SetReadDeadline(time.Time{})
	if err != nil {
		_ = c.Close()
		return nil, agentwire.Preamble{}, fmt.Errorf("the agent does not answer: %w", err)
	}
	return c, hello, nil
}

var errBusy = errors.New("the agent is busy")

// retire ends an agent. One that speaks another protocol cannot be asked: it is killed
// by the pid that it wrote down.
func retire(c *net.UnixConn, hello agentwire.Preamble) error {
	if hello.Protocol != agentwire.Protocol {
		cred, err := peerPID(c)
		if err != nil {
			return err
		}
		if err := unix.Kill(cred, unix.SIGTERM); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("end an agent of another protocol: %w", err)
		}
		return waitGone(cred)
	}
	pid, err := peerPID(c)
	if err != nil {
		return err
	}
	if _, err := c.Write(agentwire.Preamble{Protocol: agentwire.Protocol}.Append(nil)); err != nil {
		return err
	}
	conn := agentwire.NewClient(c)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	st, err := conn.Open(ctx, agentwire.OpRetire, &agentwire.Retire{})
	if err != nil {
		return err
	}
	for {
		if _, err := st.Recv(ctx); err != nil {
			break
		}
	}
	var fault *agentwire.Fault
	if err := st.Answer(&agentwire.Empty{}); errors.As(err, &fault) && fault.Kind == "conflict" {
		return errBusy
	} else if err != nil && errors.As(err, &fault) {
		return fmt.Errorf("replace the agent: %w", err)
	}
	return waitGone(pid)
}

func peerPID(c *net.UnixConn) (pid int, err error) {
	cred, err := kernel.Peer(c)
	if err != nil {
		return 0, err
	}
	if cred.Pid <= 1 || cred.Uid != 0 {
		return 0, errors.New("the agent's process is not in this container")
	}
	return int(cred.Pid), nil
}

// waitGone waits until a process has ended, and insists in the end.
func waitGone(pid int) error {
	for end := time.Now().Add(endPatience); ; time.Sleep(10 * time.Millisecond) {
		if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			return nil
		}
		if time.Now().After(end) {
			_ = unix.Kill(pid, unix.SIGKILL)
			return nil
		}
	}
}

// start starts an agent that outlives this process, and returns when it answers.
func start(dirs setup.Dirs) error {
	log, err := os.OpenFile(dirs.Lock("serve")+".log", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	ready, readyWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"caisson-agent", "serve"}, &syscall.ProcAttr{
		Dir: "/", Env: os.Environ(),
		Files: []uintptr{null.Fd(), readyWrite.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	_ = readyWrite.Close()
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	_ = ready.SetReadDeadline(time.Now().Add(startPatience))
	b, err := io.ReadAll(io.LimitReader(ready, 16))
	if err == nil && bytes.Equal(b, []byte("ready\n")) {
		return nil
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	why, _ := os.ReadFile(dirs.Lock("serve") + ".log")
	return fmt.Errorf("the agent did not start: %s", why[:min(len(why), 2000)])
}

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// Bridge copies between stdin and stdout and the agent until either side ends.
func Bridge(c *net.UnixConn, hello agentwire.Preamble) error {
	defer c.Close()
	if _, err := os.Stdout.Write(hello.Append(nil)); err != nil {
		return err
	}
	done := make(chan error, 2)
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{os.Stdin}, make([]byte, 128<<10))
		done <- err
	}()
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{os.Stdout}, struct{ io.Reader }{c}, make([]byte, 128<<10))
		done <- err
	}()
	return <-done
}
