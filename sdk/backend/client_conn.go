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

// inbox hands bytes from the goroutine that receives frames to a reader, one
// frame at a time, so that a slow reader slows the sender.
type inbox struct {
	ctx   context.Context
	data  chan []byte
	ended chan struct{} // closed by finish, after err is set
	err   error

	readMu   sync.Mutex
	cur      []byte
	deadline deadline
}

func newInbox(ctx context.Context) *inbox {
	return &inbox{ctx: ctx, data: make(chan []byte), ended: make(chan struct{}), deadline: deadline{passed: make(chan struct{})}}
}

func (b *inbox) put(p []byte) error {
	select {
	case b.data <- p:
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

// finish is called once, by the receiver.
func (b *inbox) finish(err error) {
	b.err = err
	close(b.ended)
}

func (b *inbox) Read(p []byte) (int, error) {
	b.readMu.Lock()
	defer b.readMu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	passed := b.deadline.wait()
	select {
	case <-passed:
		return 0, os.ErrDeadlineExceeded
	default:
	}
	for len(b.cur) == 0 {
		select {
		case b.cur = <-b.data:
		case <-b.ended:
			return 0, b.err
		case <-passed:
			return 0, os.ErrDeadlineExceeded
		}
	}
	n := copy(p, b.cur)
	b.cur = b.cur[n:]
	return n, nil
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
		case c.stream.Context().Err() != nil:
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
		defer time.AfterFunc(left, c.cancel).Stop()
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

func (c *portConn) Close() error {
	c.cancel()
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
