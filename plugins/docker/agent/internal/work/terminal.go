//go:build linux

package work

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/launch"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/reap"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

const (
	// maxTerminals bounds terminals, attached or not.
	maxTerminals = 16
	// scrollback is how much of what a terminal showed is kept for who attaches.
	scrollback = 64 << 10
	// unattached is how long a terminal lives that nobody is attached to.
	unattached = 30 * time.Minute
)

// Terminal is a program with a terminal. It lives on without anybody attached.
type Terminal struct {
	host  *Host
	child *reap.Child
	lease *Lease
	pty   *os.File

	mu      sync.Mutex
	changed chan struct{}
	shown   []byte // the last of it
	total   int64  // all of it
	over    bool
	code    int
	users   int
	idle    *time.Timer
}

// PID identifies a terminal.
func (t *Terminal) PID() int { return t.child.PID }

// OpenTerminal starts a program with a terminal. Attach follows it.
func (h *Host) OpenTerminal(spec *agentwire.Terminal) (*Terminal, error) {
	h.mu.Lock()
	if len(h.terms) >= maxTerminals {
		h.mu.Unlock()
		return nil, &agentwire.Fault{Kind: "capacity", Subject: "terminal", Text: fmt.Sprintf("%d terminals are open in this sandbox", maxTerminals)}
	}
	h.mu.Unlock()
	lease, err := h.Pool.Take(false)
	if err != nil {
		return nil, &agentwire.Fault{Kind: "capacity", Text: err.Error()}
	}
	t := &Terminal{host: h, lease: lease, changed: make(chan struct{})}
	if err := t.start(spec); err != nil {
		h.end(lease)
		return nil, err
	}
	h.keep(t)
	go t.pump()
	return t, nil
}

// keep makes a terminal known. Whoever asked for it may have left by now: as long as
// nobody attaches its time runs.
func (h *Host) keep(t *Terminal) {
	t.mu.Lock()
	t.idle = time.AfterFunc(unattached, t.Kill)
	t.mu.Unlock()
	h.mu.Lock()
	h.terms[t.PID()] = t
	h.mu.Unlock()
	h.enter()
}

// Terminal finds an open terminal.
func (h *Host) Terminal(pid int) *Terminal {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.terms[pid]
}

func (t *Terminal) start(spec *agentwire.Terminal) error {
	pty, tty, err := openPTY(t.lease.UID, t.host.FS.GID)
	if err != nil {
		return &agentwire.Fault{Kind: "unsupported", Subject: "terminal", Text: "the container gives no terminal: " + err.Error()}
	}
	defer tty.Close()
	s := launch.Spec{
		UID: t.lease.UID, GID: t.host.FS.GID, Argv: spec.Argv, Dir: spec.Dir, TTY: true,
		Env: t.host.environment(append([]agentwire.Pair{{Name: "TERM", Value: "xterm-256color"}}, spec.Env...), ""),
	}
	s.Processes, _, _ = limits(agentwire.Limits{})
	if len(s.Argv) == 0 {
		s.Argv = []string{shell(), "-l"}
	}
	if s.Dir == "" {
		s.Dir = files.DataDir
	}
	err = setSize(pty, spec.Size)
	if err == nil {
		var p *launch.Program
		if p, err = t.host.Launcher.Start(&s, tty, tty, tty); err == nil {
			t.child = p.Child
		}
		t.host.Launcher.Refill()
	}
	if err != nil {
		_ = pty.Close()
		return notStarted(s.Argv[0], err)
	}
	t.pty = pty
	return nil
}

func shell() string {
	for _, name := range []string{"/bin/bash", "/usr/bin/bash"} {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return "/bin/sh"
}

// openPTY makes a terminal whose slave belongs to the program's user.
func openPTY(uid, gid int) (pty, tty *os.File, err error) {
	err = kernel.As(uid, gid, func() error {
		fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		pty = os.NewFile(uintptr(fd), "ptmx")
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err != nil {
			return err
		}
		slave, err := unix.Open("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		tty = os.NewFile(uintptr(slave), "tty")
		return nil
	})
	if err != nil && pty != nil {
		_ = pty.Close()
	}
	return pty, tty, err
}

func setSize(pty *os.File, s agentwire.Size) error {
	raw, err := pty.SyscallConn()
	if err != nil {
		return err
	}
	clamp := func(n, otherwise int) uint16 {
		if n <= 0 {
			n = otherwise
		}
		return uint16(min(n, 4096))
	}
	size := unix.Winsize{Col: clamp(s.Cols, 80), Row: clamp(s.Rows, 24)}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &size) })
	if err != nil {
		return err
	}
	return failed
}

// Resize changes the size.
func (t *Terminal) Resize(s agentwire.Size) error { return setSize(t.pty, s) }

// Input types p.
func (t *Terminal) Input(p []byte) error {
	_, err := t.pty.Write(p)
	return err
}

// pump reads what the program shows, until it ends.
func (t *Terminal) pump() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 32<<10)
		for {
			n, err := t.pty.Read(buf)
			t.show(buf[:n])
			if err != nil { // EIO once nobody has the other side open
				return
			}
		}
	}()
	<-t.child.Done()
	_ = t.host.Killer.KillAll(t.lease.UID, killPatience, t.lease.woken)
	late := time.AfterFunc(holdTime, func() { _ = t.pty.SetDeadline(time.Now()) })
	<-read
	late.Stop()
	t.mu.Lock()
	t.over, t.code = true, t.child.Exit().Code
	if t.idle != nil {
		t.idle.Stop()
	}
	t.wake()
	t.mu.Unlock()
	h := t.host
	h.mu.Lock()
	delete(h.terms, t.PID())
	h.mu.Unlock()
	_ = t.pty.Close()
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	_ = h.FS.Mend(ctx, files.DataDir)
	h.end(t.lease)
	h.leave()
}

func (t *Terminal) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *Terminal) show(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.total += int64(len(p))
	if t.shown = append(t.shown, p...); len(t.shown) > 2*scrollback {
		t.shown = append([]byte(nil), t.shown[len(t.shown)-scrollback:]...)
	}
	t.wake()
}

// Attach follows a terminal until it ends or ctx does: send gets what is kept of what it
// showed, then what comes; what comes faster than send takes it, and more than is kept,
// is left out. Detached terminals end after a while.
func (t *Terminal) Attach(ctx context.Context, send func([]byte) error) (code int, err error) {
	t.mu.Lock()
	t.users++
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.users--; t.users == 0 && !t.over {
			t.idle = time.AfterFunc(unattached, t.Kill)
		}
	}()
	at := int64(0)
	for {
		t.mu.Lock()
		if oldest := t.total - int64(len(t.shown)); at < oldest {
			at = oldest
		}
		news := append([]byte(nil), t.shown[int64(len(t.shown))-(t.total-at):]...)
		at += int64(len(news))
		over, code, changed := t.over, t.code, t.changed
		t.mu.Unlock()
		if len(news) > 0 {
			if err := send(news); err != nil {
				return 0, err
			}
			continue
		}
		if over {
			return code, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// Kill ends the program and everything it started.
func (t *Terminal) Kill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over { // afterwards its user is another's
		_ = t.host.Killer.Kill(t.lease.UID)
	}
}
