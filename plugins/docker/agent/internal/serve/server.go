//go:build linux

package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/plugins/docker/agent/internal/work"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
)

const (
	// writePatience is how long a peer may not read before its connection ends.
	writePatience = time.Minute
	// helloPatience is how long a peer may take to say who it is.
	helloPatience = 10 * time.Second
	// maxConns bounds connections, those that have not said who they are included.
	maxConns = 64
)

// Server answers requests. Its exported fields are set before Listen.
type Server struct {
	Host  *work.Host
	Build string
	// Exit ends the process; it is called once, after Retire.
	Exit func()

	started time.Time
	conns   chan struct{}
	mu      sync.Mutex
	paths   map[string]net.Listener
}

// Open makes the server ready; its exported fields are set.
func (s *Server) Open() {
	s.started = time.Now()
	s.conns = make(chan struct{}, maxConns)
	s.paths = make(map[string]net.Listener)
}

// Listen accepts connections of the user uid on a new socket at path, which replaces what
// is there. The socket is made by the owner of its directory, and only that one and
// uid can use it.
func (s *Server) Listen(path string, uid int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.paths[path]; old != nil {
		_ = old.Close()
		delete(s.paths, path)
	}
	var dir unix.Stat_t
	if err := unix.Stat(filepath.Dir(path), &dir); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if dir.Mode&0o022 != 0 || work.IsProgram(int(dir.Uid)) {
		return errors.New("listen: the socket's directory is open to others")
	}
	var l *net.UnixListener
	err := kernel.As(int(dir.Uid), int(dir.Gid), func() error {
		if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		var err error
		if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
			return err
		}
		l.SetUnlinkOnClose(false) // somebody else's may be there by then
		return unix.Chmod(path, 0o600)
	})
	if err != nil {
		if l != nil {
			_ = l.Close()
		}
		return fmt.Errorf("listen: %w", err)
	}
	s.paths[path] = l
	go s.accept(l, uid)
	return nil
}

func (s *Server) accept(l *net.UnixListener, uid int) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(50 * time.Millisecond) // no descriptor is free
			continue
		}
		select {
		case s.conns <- struct{}{}:
			go func() {
				defer func() { <-s.conns }()
				s.speak(c, uid)
			}()
		default:
			_ = c.Close()
		}
	}
}

// speak is one connection.
func (s *Server) speak(c *net.UnixConn, uid int) {
	defer c.Close()
	if who, err := kernel.Peer(c); err != nil || int(who.Uid) != uid {
		fmt.Fprintf(os.Stderr, "agent: refused a connection of %+v: %v\n", who, err)
		return
	}
	_ = c.SetDeadline(time.Now().Add(helloPatience))
	busy, _ := s.Host.Busy()
	hello := agentwire.Preamble{Protocol: agentwire.Protocol, Busy: busy > 0, Build: s.Build}
	if _, err := c.Write(hello.Append(nil)); err != nil {
		return
	}
	theirs, err := agentwire.ReadPreamble(c)
	if err != nil || theirs.Protocol != agentwire.Protocol {
		return
	}
	_ = c.SetDeadline(time.Time{})
	conn := agentwire.NewServer(&patient{c}, s.handle)
	<-conn.Done()
	_ = conn.Close()
}

// patient is a connection whose writes do not wait for ever.
type patient struct{ *net.UnixConn }

func (p *patient) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return 0, err
	}
	return p.UnixConn.Write(b)
}
