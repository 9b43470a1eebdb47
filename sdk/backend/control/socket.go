package control

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// ServeListener carries connections of a socket, the next ones once there is room, until ctx ends or the listener fails,
// then closes the listener and all connections and waits for what serves them. It
// returns nil when ctx has ended. The caller sees to it that only the run's program can
// connect.
func (r *Run) ServeListener(ctx context.Context, l net.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		socket, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = socket.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			// Out of descriptors, or somebody hung up: the next may work.
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
				return nil
			}
		}
		c, err := r.dialWhenFree(ctx)
		if err != nil {
			_ = socket.Close()
			return nil // the run is over
		}
		all.Go(func() { c.serveSocket(ctx, socket) })
	}
}

// serveSocket carries one connection of a program to its end, or to that of ctx, and
// closes both.
func (c *Conn) serveSocket(ctx context.Context, socket io.ReadWriteCloser) {
	var both sync.WaitGroup
	end := sync.OnceFunc(func() {
		_ = c.Close()
		_ = socket.Close()
	})
	defer both.Wait()
	defer end()
	defer context.AfterFunc(ctx, end)()
	both.Go(func() {
		defer end() // what was answered has been written
		_, _ = io.Copy(socket, onlyReader{c})
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := socket.Read(buf)
		if n > 0 {
			err := c.pass(ctx, socket, buf[:n])
			if errors.Is(err, errHungUp) {
				return
			}
			if err != nil {
				both.Wait() // the program may still fetch what was answered
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// errHungUp: the program has closed the socket, or its writing half.
var errHungUp = errors.New("control: hung up")

// hangupInterval is how often a program whose frames wait for room is looked at.
const hangupInterval = 50 * time.Millisecond

// pass writes what came from the socket. While there is no room the end of the stream
// is not read either, and programs that gave up would wait for room that only they
// could make: so it looks for the hang-up meanwhile.
func (c *Conn) pass(ctx context.Context, socket io.ReadWriteCloser, p []byte) error {
	var look <-chan time.Time
	for {
		_, changed := c.run.Suspended()
		n, err := c.TryWrite(p)
		if p = p[n:]; err != nil || len(p) == 0 {
			return err
		}
		if n > 0 {
			continue
		}
		if look == nil {
			ticker := time.NewTicker(hangupInterval)
			defer ticker.Stop()
			look = ticker.C
		}
		select {
		case <-changed:
		case <-look:
			if hungUp(socket) {
				return errHungUp
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// onlyReader keeps io.Copy from looking for other methods.
type onlyReader struct{ io.Reader }
