package hostbackend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/sdk/backend"
)

const hasTerminals = true

// terminal is a program on a pseudo-terminal.
type terminal struct {
	*os.File
	cmd  *exec.Cmd
	once sync.Once
	gone chan struct{}
}

// OpenTerminal implements backend.TerminalOpener.
func (b *Backend) OpenTerminal(ctx context.Context, spec backend.TerminalSpec) (backend.Terminal, error) {
	const op = "OpenTerminal"
	x, err := b.awake(ctx, op, spec.Ref)
	if err != nil {
		return nil, err
	}
	argv := spec.Argv
	if len(argv) == 0 {
		argv = []string{"/bin/sh"}
	}
	dir := spec.Dir
	if dir == "" {
		dir = backend.DataDir
	}
	cmd, err := x.command(argv, "", dir, spec.Env)
	if err != nil {
		return nil, err
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	t := &terminal{File: master, cmd: cmd, gone: make(chan struct{})}
	if err := t.start(spec); err != nil {
		_ = master.Close()
		return nil, backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	go func() {
		defer close(t.gone)
		_ = cmd.Wait()
	}()
	return t, nil
}

func (t *terminal) start(spec backend.TerminalSpec) error {
	n, err := unix.IoctlGetInt(int(t.Fd()), unix.TIOCGPTN)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetPointerInt(int(t.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer slave.Close()
	if err := t.Resize(context.Background(), max(spec.Cols, 1), max(spec.Rows, 1)); err != nil {
		return err
	}
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = slave, slave, slave
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return t.cmd.Start()
}

// Read ends once the program has: the kernel says EIO then.
func (t *terminal) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	if errors.Is(err, syscall.EIO) {
		<-t.gone
		return n, io.EOF
	}
	return n, err
}

func (t *terminal) PID() int { return t.cmd.Process.Pid }

func (t *terminal) Resize(_ context.Context, cols, rows int) error {
	return unix.IoctlSetWinsize(int(t.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
}

func (t *terminal) Exit() (int, bool) {
	select {
	case <-t.gone:
		return t.cmd.ProcessState.ExitCode(), true
	default:
		return 0, false
	}
}

func (t *terminal) Close() error {
	t.once.Do(func() {
		_ = syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL)
		<-t.gone
		_ = t.File.Close()
	})
	return nil
}
