package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/container"
)

// Command is one program to start in a running container.
type Command struct {
	Container string
	Argv      []string
	Env       []string
	Dir       string
	// User is UID:GID.
	User  string
	Stdin io.Reader // nil is the end of input at once
}

// Errors of Exec beyond the engine's.
var (
	// ErrLost says that nobody knows how a command ended: the engine or the
	// container went away.
	ErrLost = errors.New("the command's end was not seen")
	// ErrListener wraps what a listener returned.
	ErrListener = errors.New("nobody listens")
)

// Streams take a command's output. They are called from one goroutine; an error
// ends the listening, and Exec returns it.
type Streams struct {
	Started        func() error
	Stdout, Stderr func(p []byte) error
}

// Exec runs a command until it has ended and its output until then was taken. A
// process that it leaves behind does not hold it up. When ctx ends or nobody listens
// any more it returns at once; the process goes on: ending it is the caller's
// business. On success it returns the exit code, 128+n for signal n.
func (e *Engine) Exec(ctx context.Context, cmd Command, out Streams) (int, error) {
	id, stream, err := e.attach(ctx, cmd, false)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	stop := context.AfterFunc(ctx, func() { stream.Close() })
	defer stop()
	if out.Started != nil {
		if err := out.Started(); err != nil {
			return 0, fmt.Errorf("%w: %w", ErrListener, err)
		}
	}
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		if cmd.Stdin != nil {
			_, _ = io.Copy(stream, cmd.Stdin) // a command need not read it all
		}
		_ = stream.CloseWrite()
	}()
	defer func() {
		stream.Close()
		if cmd.Stdin == nil {
			<-fed
		}
	}()

	ended := make(chan struct{})
	var over atomic.Bool
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(ended)
		if e.awaitEnd(watch, id) {
			// What it wrote is on its way; what still holds the output is not it.
			over.Store(true)
			stream.drain()
		}
	}()
	listenErr := demux(stream, out)
	cancel()
	<-ended
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if errors.Is(listenErr, ErrListener) {
		return 0, listenErr
	}
	return e.exitOf(ctx, id, over.Load())
}

// After a command has ended its output may still be on its way, from pipes and sockets
// that hold less than drainBytes: reading stops when nothing came for quietTime, when it
// has waited for drainTime in all, and after drainBytes. The time of whoever takes the
// output does not count.
const (
	quietTime  = time.Second
	drainTime  = 3 * time.Second
	drainBytes = 8 << 20
)

// attach starts a command and returns its streams.
func (e *Engine) attach(ctx context.Context, cmd Command, tty bool) (string, *Stream, error) {
	short, cancel := Short(ctx)
	defer cancel()
	made, err := e.Client(short).ContainerExecCreate(short, cmd.Container, container.ExecOptions{
		Cmd: cmd.Argv, Env: cmd.Env, WorkingDir: cmd.Dir, User: cmd.User, Tty: tty,
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return "", nil, err
	}
	// The client dials with its context, and then waits without it.
	var conn held
	stop := context.AfterFunc(short, conn.close)
	resp, err := e.Client(ctx).ContainerExecAttach(context.WithValue(short, holder{}, &conn), made.ID, container.ExecAttachOptions{Tty: tty})
	if !stop() && err == nil {
		resp.Close()
		err = context.DeadlineExceeded
	}
	switch {
	case ctx.Err() != nil:
		return "", nil, ctx.Err()
	case short.Err() != nil:
		return "", nil, fmt.Errorf("start a command: %w", context.DeadlineExceeded)
	case err != nil:
		return "", nil, err
	}
	return made.ID, &Stream{conn: resp.Conn, r: resp.Reader, closer: resp.CloseWrite}, nil
}

// holder is the key under which a context carries who is told of the connection that is
// dialled with it.
type holder struct{}

// held closes a connection when its time is over.
type held struct {
	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

func (h *held) hold(conn net.Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conn = conn
	if h.closed {
		_ = conn.Close()
	}
}

func (h *held) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.conn != nil {
		_ = h.conn.Close()
	}
}

// awaitEnd asks until the command has ended. The end of its output says nothing: a
// process that it left behind may hold it open, and one that closed it may run.
func (e *Engine) awaitEnd(ctx context.Context, id string) bool {
	wait := 60 * time.Millisecond
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
		}
		short, cancel := Short(ctx)
		got, err := e.Client(short).ContainerExecInspect(short, id)
		cancel()
		if err == nil && !got.Running && got.Pid != 0 {
			return true
		}
		if err != nil && ctx.Err() == nil && IsAbsent(err) {
			return true
		}
		wait = min(wait*3/2, 500*time.Millisecond)
		timer.Reset(wait)
	}
}

// exitOf asks how a command ended whose output is at its end. known says that it was
// seen to have ended.
func (e *Engine) exitOf(ctx context.Context, id string, known bool) (int, error) {
	for wait := 2 * time.Millisecond; ; wait = min(wait*2, 250*time.Millisecond) {
		short, cancel := Short(ctx)
		got, err := e.Client(short).ContainerExecInspect(short, id)
		cancel()
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil:
			return 0, fmt.Errorf("%w: %w", ErrLost, err)
		case !got.Running:
			return got.ExitCode, nil
		case known:
			return 0, ErrLost
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Stream is the hijacked connection of one command.
type Stream struct {
	conn   net.Conn
	r      io.Reader
	closer func() error
	once   sync.Once

	mu       sync.Mutex
	draining bool
	wait     time.Duration // what may still be waited for, once draining
	left     int           // bytes that may still be read then
}

// Read reads what the command wrote, in the engine's frames if it has no terminal.
func (s *Stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	if s.draining {
		if s.left <= 0 || s.wait <= 0 {
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		s.bound()
	}
	s.mu.Unlock()
	began := time.Now()
	n, err := s.r.Read(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		s.left -= n
		s.wait -= time.Since(began)
	}
	return n, err
}

// drain ends reading soon.
func (s *Stream) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining, s.wait, s.left = true, drainTime, drainBytes
	s.bound() // of who reads now
}

// bound has who reads wait no longer than he may. mu is held.
func (s *Stream) bound() {
	_ = s.conn.SetReadDeadline(time.Now().Add(min(quietTime, s.wait)))
}

func (s *Stream) Write(p []byte) (int, error) { return s.conn.Write(p) }

// CloseWrite tells the command that its input is at its end.
func (s *Stream) CloseWrite() error { return s.closer() }

// Close ends the connection; the command goes on.
func (s *Stream) Close() (err error) {
	s.once.Do(func() { err = s.conn.Close() })
	return err
}

const maxFrame = 1 << 24 // engines send 32 KiB at most

// frame reads one header of the multiplexed stream: the stream's number, three
// zeros, and the length, big-endian
// (https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach).
func frame(r io.Reader) (stream byte, size int, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	n := binary.BigEndian.Uint32(head[4:])
	if head[0] > 3 || head[1]|head[2]|head[3] != 0 || n > maxFrame {
		return 0, 0, errors.New("the engine's stream is damaged")
	}
	return head[0], int(n), nil
}

// demux passes a multiplexed stream on until it ends.
func demux(r io.Reader, out Streams) error {
	buf := make([]byte, 64<<10)
	for {
		stream, n, err := frame(r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for n > 0 {
			got, err := r.Read(buf[:min(n, len(buf))])
			n -= got
			var refused error
			switch {
			case got == 0:
			case stream == 2 && out.Stderr != nil:
				refused = out.Stderr(buf[:got])
			case stream != 2 && out.Stdout != nil:
				refused = out.Stdout(buf[:got])
			}
			if refused != nil {
				return fmt.Errorf("%w: %w", ErrListener, refused)
			}
			if err != nil && n > 0 {
				return err
			}
		}
	}
}

// NotStarted recognises an engine's report that a command could not be started: it
// comes as the command's own output with code 126 or 127
// (https://docs.docker.com/engine/containers/run/#exit-status).
func NotStarted(code int, stdout string) bool {
	return (code == 126 || code == 127) &&
		(strings.HasPrefix(stdout, "OCI runtime exec failed") || strings.Contains(stdout, "unable to find user"))
}

// Pipe is a command whose output is read and whose input is written: the engine's
// stream without its frames. What it writes to stderr is kept, the last of it.
type Pipe struct {
	s    *Stream
	left int

	mu   sync.Mutex
	last []byte
}

// Open starts a command to talk to. ctx bounds the start only.
func (e *Engine) Open(ctx context.Context, cmd Command) (*Pipe, error) {
	_, s, err := e.attach(ctx, cmd, false)
	if err != nil {
		return nil, err
	}
	return &Pipe{s: s}, nil
}

// Read reads what the command writes to its standard output.
func (p *Pipe) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for p.left == 0 {
		stream, n, err := frame(p.s)
		if err != nil {
			return 0, err
		}
		if stream != 2 {
			p.left = n
			continue
		}
		said := make([]byte, min(n, 4<<10))
		if _, err := io.ReadFull(p.s, said); err != nil {
			return 0, err
		}
		if _, err := io.CopyN(io.Discard, p.s, int64(n-len(said))); err != nil {
			return 0, err
		}
		p.mu.Lock()
		p.last = said
		p.mu.Unlock()
	}
	n, err := p.s.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, err
}

// Write writes to the command's standard input.
func (p *Pipe) Write(b []byte) (int, error) { return p.s.Write(b) }

// Close ends both directions. A command that reads its input sees the end.
func (p *Pipe) Close() error { return p.s.Close() }

// Said is the last that the command wrote to stderr, without paths of the engine.
func (p *Pipe) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return scrub(string(p.last))
}
