package agentwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxStreams is how many streams a connection has at the most.
const MaxStreams = 1024

// ErrClosed is why a connection ended that this side closed.
var ErrClosed = errors.New("connection closed")

// Conn is one connection after its preambles. It is safe for concurrent use.
type Conn struct {
	rw    io.ReadWriteCloser
	serve func(*Stream)

	write   chan struct{} // holds a token while nobody writes
	scratch []byte        // of the writer

	mu      sync.Mutex
	streams map[uint32]*Stream
	last    uint32 // the highest stream so far
	err     error
	done    chan struct{}
	loops   sync.WaitGroup
}

// NewClient is the plugin's side of a connection. It reads until Close or until the
// connection breaks.
func NewClient(rw io.ReadWriteCloser) *Conn { return newConn(rw, nil) }

// NewServer is the agent's side. serve is called for every stream, each in a goroutine
// of its own, and has to call Stream.End; it returns soon after Stream.Canceled.
func NewServer(rw io.ReadWriteCloser, serve func(*Stream)) *Conn { return newConn(rw, serve) }

func newConn(rw io.ReadWriteCloser, serve func(*Stream)) *Conn {
	c := &Conn{
		rw: rw, serve: serve, write: make(chan struct{}, 1),
		streams: make(map[uint32]*Stream), done: make(chan struct{}),
	}
	c.write <- struct{}{}
	c.loops.Add(1)
	go c.read()
	return c
}

// Close ends the connection and every stream, and waits for the goroutines it owns,
// except when it is called from one of them.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	c.loops.Wait()
	return nil
}

// Done is closed when the connection has ended; Err then says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is nil while the connection stands.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Fail ends the connection with a reason. It does not wait.
func (c *Conn) Fail(err error) { c.fail(err) }

func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	streams := c.streams
	c.streams = nil
	close(c.done)
	c.mu.Unlock()
	_ = c.rw.Close()
	for _, s := range streams {
		s.lost(err)
	}
}

// read is the only reader. It never writes and never waits for anybody but the peer.
func (c *Conn) read() {
	defer c.loops.Done()
	for {
		f, err := readFrame(c.rw)
		if err == nil {
			err = c.take(f)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("the other side hung up: %w", io.ErrUnexpectedEOF)
			}
			c.fail(err)
			return
		}
	}
}

func (c *Conn) take(f frame) error {
	if f.kind == KindOpen {
		return c.accept(f)
	}
	c.mu.Lock()
	s, last := c.streams[f.stream], c.last
	if s != nil && f.kind == KindEnd && c.serve == nil {
		delete(c.streams, f.stream)
	}
	c.mu.Unlock()
	switch {
	case s != nil:
		return s.take(f)
	case c.serve != nil && f.stream <= last && f.kind != KindEnd:
		return nil // it crossed our answer
	}
	return protocolError("a frame of stream %d, which there is not", f.stream)
}

func (c *Conn) accept(f frame) error {
	if c.serve == nil {
		return protocolError("the agent opens a stream")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case f.stream <= c.last:
		return protocolError("stream %d after %d", f.stream, c.last)
	case len(c.streams) >= MaxStreams:
		return protocolError("more than %d streams", MaxStreams)
	}
	s := newStream(c, f.stream)
	s.op, s.request = Op(f.payload[0]), f.payload[1:]
	c.streams[s.id] = s
	c.last = s.id
	c.loops.Add(1)
	go func() {
		defer c.loops.Done()
		c.serve(s)
		s.End(Answer(nil, &Fault{Kind: "internal", Text: "not answered"}))
	}()
	return nil
}

// Open begins a stream with a request.
func (c *Conn) Open(ctx context.Context, op Op, request Message) (*Stream, error) {
	body := Encode(request)
	if 1+len(body) > MaxOpen {
		return nil, &Fault{Kind: "invalid_request", Text: fmt.Sprintf("the request has %d bytes, more than %d", len(body), MaxOpen-1)}
	}
	// Streams are opened in the order of their numbers: who numbers one writes it.
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.err != nil || len(c.streams) >= MaxStreams || c.last == 1<<32-1 {
		err := c.err
		c.mu.Unlock()
		c.unlock()
		if err == nil {
			err = &Fault{Kind: "capacity", Text: "too many requests are under way on one connection"}
		}
		return nil, err
	}
	c.last++
	s := newStream(c, c.last)
	c.streams[s.id] = s
	c.mu.Unlock()
	defer c.unlock()
	if err := c.put(KindOpen, s.id, []byte{byte(op)}, body); err != nil {
		return nil, err
	}
	return s, nil
}

func (c *Conn) lock(ctx context.Context) error {
	select {
	case <-c.write:
		return nil
	case <-c.done:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Conn) unlock() { c.write <- struct{}{} }

// put writes a frame; the caller holds the token.
func (c *Conn) put(kind Kind, stream uint32, parts ...[]byte) error {
	c.scratch = appendFrame(c.scratch[:0], kind, stream, parts...)
	_, err := c.rw.Write(c.scratch)
	if cap(c.scratch) > 2*MaxData {
		c.scratch = nil
	}
	if err != nil {
		c.fail(fmt.Errorf("write: %w", err))
		return c.Err()
	}
	return nil
}

// send writes a frame. When ctx ends first, nothing was written.
func (c *Conn) send(ctx context.Context, kind Kind, stream uint32, parts ...[]byte) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	return c.put(kind, stream, parts...)
}

// background sends a frame when the connection is free, without anybody waiting.
func (c *Conn) background(kind Kind, stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.loops.Add(1)
	go func() {
		defer c.loops.Done()
		_ = c.send(context.Background(), kind, stream)
	}()
}
