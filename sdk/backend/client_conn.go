package backend

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/caisson-run/caisson/sdk/backend/backendpb"
)

// inbox hands bytes from the goroutine that receives frames to a reader. It holds
// little, so that a slow reader slows the sender, but something, so that what is no
// data gets past bytes that nobody reads yet.
type inbox struct {
	ctx   context.Context
	more  chan struct{} // something was put
	room  chan struct{} // something was taken
	shut  chan struct{} // closed by close
	once  sync.Once
	ended chan struct{} // closed by finish, after err is set
	err   error

	mu   sync.Mutex
	held []byte

	readMu   sync.Mutex
	deadline deadline
}

// inboxBytes is how much an inbox holds before it takes no further frame.
const inboxBytes = 64 << 10

func newInbox(ctx context.Context) *inbox {
	return &inbox{
		ctx: ctx, more: make(chan struct{}, 1), room: make(chan struct{}, 1),
		shut: make(chan struct{}), ended: make(chan struct{}), deadline: deadline{passed: make(chan struct{})},
	}
}

// wake tells one who waits, now or next.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put is the receiver's. It keeps p.
func (b *inbox) put(p []byte) error {
	for {
		b.mu.Lock()
		if len(b.held) < inboxBytes {
			if len(b.held) == 0 {
				b.held = p
			} else {
				b.held = append(b.held, p...)
			}
			b.mu.Unlock()
			wake(b.more)
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.room:
		case <-b.shut:
			return net.ErrClosed
		case <-b.ctx.Done():
			return b.ctx.Err()
		}
	}
}

// take moves what is held into p.
func (b *inbox) take(p []byte) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := copy(p, b.held)
	if b.held = b.held[n:]; len(b.held) == 0 {
		b.held = nil
	}
	return n
}

// finish is called once, by the receiver.
func (b *inbox) finish(err error) {
	b.err = err
	close(b.ended)
}

// close makes the inbox worthless: what is held is not read any more.
func (b *inbox) close() { b.once.Do(func() { close(b.shut) }) }

func (b *inbox) closed() bool {
	select {
	case <-b.shut:
		return true
	default:
		return false
	}
}

func (b *inbox) Read(p []byte) (int, error) {
	b.readMu.Lock()
	defer b.readMu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	passed := b.deadline.wait()
	for over := false; ; {
		select {
		case <-b.shut:
			<-b.ended
			return 0, b.err
		case <-passed:
			return 0, os.ErrDeadlineExceeded
		default:
		}
		if n := b.take(p); n > 0 {
			wake(b.room)
			return n, nil
		}
		if over {
			return 0, b.err
		}
		select {
		case <-b.more:
		case <-b.shut:
		case <-b.ended:
			over = true // what was put before is read first
		case <-passed:
		}
	}
}

// deadline is a channel that closes at a time that can be moved.
type deadline struct {
	mu     sync.Mutex
	timer  *time.Timer
	passed chan struct{}
}

func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		d.passed = make(chan struct{}) // it fired or is about to
	}
	d.timer = nil
	select {
	case <-d.passed:
		d.passed = make(chan struct{})
	default:
	}
	if t.IsZero() {
		return
	}
	passed := d.passed
	if left := time.Until(t); left > 0 {
		d.timer = time.AfterFunc(left, func() { close(passed) })
	} else {
		close(passed)
	}
}

func (c *client) DialPort(ctx context.Context, ref Ref, port int) (net.Conn, error) {
	const op = "DialPort"
	if port < 1 || port > 65535 {
		return nil, Errorf(KindInvalidRequest, op, "port %d is not between 1 and 65535", port)
	}
	stream, first, cancel, err := openStream(ctx, op, c.pb.DialPort, &pb.DialPortRequest{Frame: &pb.DialPortRequest_Open{
		Open: &pb.DialPortOpen{Ref: toPBRef(ref), Port: int32(port)},
	}})
	if err != nil {
		return nil, err
	}
	if first.GetOpened() == nil {
		cancel()
		return nil, violation(op, "the first frame is not an answer to open")
	}
	conn := &portConn{stream: stream, cancel: cancel, port: port, inbox: newInbox(stream.Context())}
	go conn.receive()
	return conn, nil
}

// portConn is a connection to a port at the other end of a stream. A Write that
// passes its deadline ends the connection.
type portConn struct {
	stream grpc.BidiStreamingClient[pb.DialPortRequest, pb.DialPortResponse]
	cancel context.CancelFunc
	port   int
	inbox  *inbox

	sendMu sync.Mutex
	dlMu   sync.Mutex
	write  time.Time
}

var _ net.Conn = (*portConn)(nil)

func (c *portConn) receive() {
	for {
		frame, err := c.stream.Recv()
		if err == nil {
			err = c.inbox.put(frame.GetData())
		}
		switch {
		case errors.Is(err, io.EOF):
			c.inbox.finish(io.EOF)
			return
		case c.inbox.closed():
			c.inbox.finish(net.ErrClosed)
			return
		case err != nil:
			c.inbox.finish(fromStatus(context.Background(), "DialPort", err))
			return
		}
	}
}

func (c *portConn) Read(p []byte) (int, error) { return c.inbox.Read(p) }

func (c *portConn) Write(p []byte) (int, error) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.dlMu.Lock()
	limit := c.write
	c.dlMu.Unlock()
	if !limit.IsZero() {
		left := time.Until(limit)
		if left <= 0 {
			return 0, os.ErrDeadlineExceeded
		}
		defer time.AfterFunc(left, c.abort).Stop()
	}
	n := 0
	for piece := range chunks(p) {
		if err := c.stream.Send(&pb.DialPortRequest{Frame: &pb.DialPortRequest_Data{Data: piece}}); err != nil {
			if !limit.IsZero() && !time.Now().Before(limit) {
				return n, os.ErrDeadlineExceeded
			}
			return n, net.ErrClosed
		}
		n += len(piece)
	}
	return n, nil
}

// CloseWrite sends end of file; reading goes on.
func (c *portConn) CloseWrite() error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.stream.CloseSend()
}

func (c *portConn) abort() {
	c.inbox.close()
	c.cancel()
}

func (c *portConn) Close() error {
	c.abort()
	<-c.inbox.ended
	return nil
}

func (c *portConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *portConn) SetReadDeadline(t time.Time) error {
	c.inbox.deadline.set(t)
	return nil
}

// SetWriteDeadline applies to later Writes.
func (c *portConn) SetWriteDeadline(t time.Time) error {
	c.dlMu.Lock()
	c.write = t
	c.dlMu.Unlock()
	return nil
}

func (c *portConn) LocalAddr() net.Addr  { return portAddr(0) }
func (c *portConn) RemoteAddr() net.Addr { return portAddr(c.port) }

// portAddr is a port of a sandbox, which has no address of ours.
type portAddr int

func (portAddr) Network() string  { return "sandbox" }
func (a portAddr) String() string { return "sandbox:" + strconv.Itoa(int(a)) }
