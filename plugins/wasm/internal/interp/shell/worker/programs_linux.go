package worker

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/coreutils"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// programs asks for what the engine runs. It is safe for concurrent use.
type programs struct {
	conn *net.UnixConn

	mu      sync.Mutex
	next    uint32
	waiting map[uint32]chan wire.Ended
	gone    bool
}

// newPrograms also starts to listen for the ends of programs, until the
// connection ends, which is when this process does.
func newPrograms(conn *net.UnixConn) *programs {
	p := &programs{conn: conn, waiting: map[uint32]chan wire.Ended{}}
	go p.listen()
	return p
}

func (p *programs) listen() {
	b := make([]byte, wire.MaxPacket)
	for {
		n, err := p.conn.Read(b)
		var e wire.Ended
		if err == nil {
			e, err = wire.ParseEnded(b[:n])
		}
		p.mu.Lock()
		if err != nil {
			p.gone = true
			for _, c := range p.waiting {
				close(c)
			}
			clear(p.waiting)
		} else if c := p.waiting[e.ID]; c != nil {
			delete(p.waiting, e.ID)
			c <- e // has room for it
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// run runs a program with the streams, environment and directory of c.
func (p *programs) run(ctx context.Context, c *coreutils.Call) int {
	s := wire.Start{Argv: c.Argv, Env: environment(c)}
	var files []*os.File
	var after []func()
	defer func() {
		for _, f := range after {
			f()
		}
	}()
	in, done, err := inputPipe(c.Stdin)
	if err != nil {
		fmt.Fprintf(c.Stderr, "%s: %v\n", c.Argv[0], err)
		return 126
	}
	after = append(after, done)
	if in != nil {
		s.Streams |= wire.StreamStdin
		files = append(files, in)
	}
	for _, o := range []struct {
		bit uint32
		w   io.Writer
	}{{wire.StreamStdout, c.Stdout}, {wire.StreamStderr, c.Stderr}} {
		if o.w == io.Discard {
			continue
		}
		out, done, err := outputPipe(o.w)
		if err != nil {
			fmt.Fprintf(c.Stderr, "%s: %v\n", c.Argv[0], err)
			return 126
		}
		after = append(after, done)
		s.Streams |= o.bit
		files = append(files, out)
	}
	end, err := p.start(ctx, s, files)
	if err != nil {
		fmt.Fprintf(c.Stderr, "%s: %v\n", c.Argv[0], err)
		return 126
	}
	if end.Message != "" {
		fmt.Fprintf(c.Stderr, "%s: %s\n", c.Argv[0], end.Message)
	}
	return int(end.Code)
}

// start sends a request and waits for the end. When ctx ends the program is
// stopped.
func (p *programs) start(ctx context.Context, s wire.Start, files []*os.File) (wire.Ended, error) {
	ended := make(chan wire.Ended, 1)
	p.mu.Lock()
	if p.gone {
		p.mu.Unlock()
		return wire.Ended{}, io.ErrClosedPipe
	}
	p.next++
	s.ID = p.next
	p.waiting[s.ID] = ended
	p.mu.Unlock()
	packet := s.Append(nil)
	err := error(syscall.E2BIG)
	if len(packet) <= wire.MaxPacket {
		err = p.send(packet, files)
	}
	if err != nil {
		p.mu.Lock()
		delete(p.waiting, s.ID)
		p.mu.Unlock()
		return wire.Ended{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.send((&wire.Start{ID: s.ID}).Append(nil), nil) })
	defer stop()
	e, ok := <-ended
	if !ok {
		return wire.Ended{}, io.ErrClosedPipe
	}
	return e, nil
}

// send sends a packet with descriptors. They stay usable here.
func (p *programs) send(packet []byte, files []*os.File) error {
	var fds []int
	for _, f := range files {
		conn, err := f.SyscallConn() // Fd would make it blocking
		if err != nil {
			return err
		}
		if err := conn.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return err
		}
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err := p.conn.WriteMsgUnix(packet, rights, nil)
	return err
}

// inputPipe returns a pipe that brings what r has, nil if there is nothing.
func inputPipe(r io.Reader) (*os.File, func(), error) {
	none := func() {}
	if f, ok := r.(*os.File); ok && f != nil {
		return f, none, nil
	}
	if r == nil || r == (*os.File)(nil) {
		return nil, none, nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, none, err
	}
	go func() {
		_, _ = io.Copy(pw, r)
		_ = pw.Close()
	}()
	return pr, func() { _ = pr.Close() }, nil
}

// outputPipe returns a pipe whose content goes to w. done waits for the last of
// it.
func outputPipe(w io.Writer) (f *os.File, done func(), err error) {
	if f, ok := w.(*os.File); ok {
		return f, func() {}, nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return nil, func() {}, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(w, pr)
		_ = pr.Close() // a writer that goes on is told
	}()
	return pw, func() {
		_ = pw.Close()
		<-copied
	}, nil
}
