package engine

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestDrain: what is on its way when a command has ended is read however slowly it is
// taken, and who holds the output open, or never stops writing, is not waited for.
func TestDrain(t *testing.T) {
	begin := func(t *testing.T, write func(net.Conn)) *Stream {
		ours, theirs := net.Pipe()
		written := make(chan struct{})
		t.Cleanup(func() {
			_ = ours.Close()
			_ = theirs.Close()
			<-written // a writer that still sleeps is not left in the bubble
		})
		go func() {
			defer close(written)
			write(theirs)
		}()
		s := &Stream{conn: ours, r: ours}
		s.drain()
		return s
	}
	t.Run("a slow taker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := begin(t, func(c net.Conn) {
				for range 64 {
					_, _ = c.Write(make([]byte, 1<<10))
				}
			})
			var n int
			for buf := make([]byte, 1<<10); ; {
				time.Sleep(2 * quietTime)
				got, err := s.Read(buf)
				if n += got; err != nil {
					break
				}
			}
			if n != 64<<10 {
				t.Errorf("%d of %d bytes", n, 64<<10)
			}
		})
	})
	t.Run("silence", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := begin(t, func(net.Conn) {})
			began := time.Now()
			if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != quietTime {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	})
	t.Run("a trickle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := begin(t, func(c net.Conn) {
				for {
					time.Sleep(quietTime / 2)
					if _, err := c.Write([]byte("x")); err != nil {
						return
					}
				}
			})
			began := time.Now()
			if _, err := io.Copy(io.Discard, s); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > drainTime+quietTime {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	})
	t.Run("a flood", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := begin(t, func(c net.Conn) {
				for {
					if _, err := c.Write(make([]byte, 32<<10)); err != nil {
						return
					}
				}
			})
			n, err := io.Copy(io.Discard, s)
			if !errors.Is(err, os.ErrDeadlineExceeded) || n < drainBytes || n > drainBytes+64<<10 {
				t.Errorf("%v after %d bytes", err, n)
			}
		})
	})
}
