//go:build linux

package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/reap"
)

// Launcher starts programs and keeps some processes ready for it. It is safe for
// concurrent use.
type Launcher struct {
	reaper *reap.Reaper
	null   *os.File
	idle   chan *helper
	refill chan struct{}
}

// helper is a process that waits to become a program.
type helper struct {
	child *reap.Child
	conn  *os.File
}

// Program is a program that was started.
type Program struct {
	*reap.Child
	// Before is the processor time that its process had used by then.
	Before time.Duration
}

// New keeps n processes ready, from now on and for as long as the process lives.
func New(reaper *reap.Reaper, n int) (*Launcher, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	l := &Launcher{reaper: reaper, null: null, idle: make(chan *helper, n), refill: make(chan struct{}, 1)}
	go l.keep()
	l.Refill()
	return l, nil
}

// Refill makes up for processes that were used, in the background. Starting a program
// does not do that by itself, so that a short one has the processor to itself.
func (l *Launcher) Refill() {
	select {
	case l.refill <- struct{}{}:
	default:
	}
}

func (l *Launcher) keep() {
	for range l.refill {
		for len(l.idle) < cap(l.idle) {
			h, err := l.start()
			if err != nil {
				break // there is no room for it now; the next program asks again
			}
			select {
			case l.idle <- h:
			default:
				h.drop()
			}
		}
	}
}

func (l *Launcher) start() (*helper, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	defer unix.Close(pair[1])
	child, err := l.reaper.Start(func() (int, error) {
		null := l.null.Fd()
		return syscall.ForkExec("/proc/self/exe", []string{"caisson-agent", Command}, &syscall.ProcAttr{
			Dir: "/", Env: []string{"GOMAXPROCS=1", "GOGC=off"}, Files: []uintptr{null, null, null, uintptr(pair[1])},
		})
	})
	if err != nil {
		_ = unix.Close(pair[0])
		return nil, fmt.Errorf("launcher: %w", err)
	}
	// Answers are waited for by the poller, not by a thread each.
	_ = unix.SetNonblock(pair[0], true)
	return &helper{child, os.NewFile(uintptr(pair[0]), "launcher")}, nil
}

func (h *helper) drop() { _ = h.conn.Close() } // it exits when it sees that

// Start starts a program with those files, three, as its first descriptors. It returns once the program's first instruction may have executed, or
// an *Error when the program could not be started.
func (l *Launcher) Start(s *Spec, files ...*os.File) (*Program, error) {
	for {
		var h *helper
		warm := true
		select {
		case h = <-l.idle:
		default:
			warm = false
			var err error
			if h, err = l.start(); err != nil {
				return nil, err
			}
		}
		before := kernel.ProcessCPU(h.child.PID)
		child, err := h.run(s, files)
		if warm && errors.Is(err, errGone) { // it died while it waited
			continue
		}
		if err != nil {
			return nil, err
		}
		return &Program{child, before}, nil
	}
}

// errGone says that a launcher ended before it was told anything.
var errGone = errors.New("the launcher is gone")

func (h *helper) run(s *Spec, files []*os.File) (*reap.Child, error) {
	defer h.conn.Close()
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	b := s.encode()
	if len(b) > maxSpec {
		return nil, &Error{"exec", syscall.E2BIG}
	}
	rights := unix.UnixRights(fds...)
	raw, err := h.conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var sendErr error
	n := 0
	if err := raw.Write(func(fd uintptr) bool {
		n, sendErr = unix.SendmsgN(int(fd), b, rights, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(sendErr, unix.EAGAIN)
	}); err != nil {
		return nil, err
	}
	if sendErr != nil {
		return nil, fmt.Errorf("%w: %w", errGone, sendErr)
	}
	if n < len(b) {
		if _, err := h.conn.Write(b[n:]); err != nil {
			return nil, fmt.Errorf("launcher: %w", err)
		}
	}
	answer, err := io.ReadAll(io.LimitReader(h.conn, 64))
	switch {
	case err != nil: // it was killed in between: that is how the program ended
		return h.child, nil
	case len(answer) >= 4:
		return nil, &Error{string(answer[4:]), syscall.Errno(binary.BigEndian.Uint32(answer))}
	}
	return h.child, nil
}
