//go:build linux

// Package reap waits for every process that ends below the agent: those that it
// started, and those whose parents ended before them, which the kernel gives to it.
package reap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Exit is how a process ended.
type Exit struct {
	PID, UID int
	// Code is the exit status, and Signal what killed it, 0 when nothing did.
	Code   int
	Signal unix.Signal
	// CPU is processor time, that of waited-for children included. RSS is the most
	// memory that the process or one of them had, in bytes.
	CPU time.Duration
	RSS int64
}

// Child is a process that the agent started.
type Child struct {
	PID  int
	done chan struct{}
	exit Exit
}

// Done is closed when the process has ended and was waited for.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit is how it ended, once Done is closed.
func (c *Child) Exit() Exit { return c.exit }

// Reaper waits. There is one in a process.
type Reaper struct {
	// ended is called for every process, before its Done is closed.
	ended func(Exit)

	mu       sync.Mutex
	children map[int]*Child
	started  chan struct{} // that there is something to wait for
}

// New makes the process the one that orphans below it are given to, and starts waiting,
// for as long as the process lives. Where there is no such thing (older gVisor), process 1
// waits for orphans, and what they used is not known.
func New(ended func(Exit)) (*Reaper, error) {
	err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("become the reaper of what is below: %w", err)
	}
	r := &Reaper{ended: ended, children: make(map[int]*Child), started: make(chan struct{}, 1)}
	go r.loop()
	return r, nil
}

// Start registers the process that fork makes. It is not waited for before it is known.
func (r *Reaper) Start(fork func() (pid int, err error)) (*Child, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return nil, err
	}
	c := &Child{PID: pid, done: make(chan struct{})}
	r.children[pid] = c
	select {
	case r.started <- struct{}{}:
	default:
	}
	return c, nil
}

// Children counts the processes that were started and have not ended.
func (r *Reaper) Children() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.children)
}

func (r *Reaper) loop() {
	for {
		e, err := wait()
		switch {
		case err == nil:
			r.deliver(e)
		case errors.Is(err, unix.ECHILD):
			<-r.started
		case !errors.Is(err, unix.EINTR):
			time.Sleep(10 * time.Millisecond) // the kernel cannot; do not spin
		}
	}
}

func (r *Reaper) deliver(e Exit) {
	r.ended(e)
	r.mu.Lock() // also waits for a Start that is about to register this process
	c := r.children[e.PID]
	delete(r.children, e.PID)
	r.mu.Unlock()
	if c != nil {
		c.exit = e
		close(c.done)
	}
}

// The layout of siginfo_t for SIGCHLD on 64-bit Linux.
const (
	siCode   = 8
	siPID    = 16
	siUID    = 20
	siStatus = 24
	siSize   = 128

	cldExited = 1
)

func wait() (Exit, error) {
	var info [siSize]byte
	var ru unix.Rusage
	_, _, errno := unix.Syscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WALL, uintptr(unsafe.Pointer(&ru)), 0)
	if errno != 0 {
		return Exit{}, errno
	}
	field := func(at int) int { return int(int32(binary.NativeEndian.Uint32(info[at:]))) }
	e := Exit{
		PID: field(siPID), UID: field(siUID), CPU: time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), RSS: ru.Maxrss << 10,
	}
	if field(siCode) == cldExited {
		e.Code = field(siStatus)
	} else {
		e.Signal = unix.Signal(field(siStatus))
		e.Code = 128 + int(e.Signal)
	}
	return e, nil
}
