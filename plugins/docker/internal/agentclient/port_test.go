package agentclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
)

// dialed returns a connection with a port that is served as a test pleases.
func dialed(t *testing.T, program func(context.Context, *agentwire.Stream)) net.Conn {
	c, err := agentclient.Open(t.Context(), liar(t, program), agentclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	conn, err := c.DialPort(t.Context(), 80)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestPortThatHangs: a program that neither reads nor says anything does not hold a
// connection that was closed.
func TestPortThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		conn := dialed(t, func(ctx context.Context, _ *agentwire.Stream) {
			<-ctx.Done()
			close(ended)
		})
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := conn.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) || n < agentwire.Window/2 {
			t.Errorf("%d bytes were taken, %v", n, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the stream goes on")
		}
	})
}

// TestPortEnds: what was written arrives with its end, at a program that takes its time,
// and what it answers arrives where that is waited for.
func TestPortEnds(t *testing.T) {
	const size = agentwire.Window / 2
	for name, c := range map[string]struct {
		end    func(net.Conn) error
		answer string
	}{
		"half closed": {func(c net.Conn) error { return c.(interface{ CloseWrite() error }).CloseWrite() }, "all of it"},
		"closed":      {net.Conn.Close, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := make(chan int, 1)
				conn := dialed(t, func(ctx context.Context, st *agentwire.Stream) {
					time.Sleep(time.Second)
					n, it := 0, agentwire.Item{}
					var err error
					for ; err == nil && !it.Message; it, err = st.Recv(ctx) {
						n += len(it.Data)
					}
					if err != nil || ctx.Err() != nil {
						n = -1 // given up
					}
					got <- n
					_ = st.Send(ctx, agentwire.ChanContent, []byte("all of it"))
					_ = st.SendMessage(ctx, agentwire.ChanContent, &agentwire.ContentEnd{})
				})
				defer conn.Close()
				if _, err := conn.Write(make([]byte, size)); err != nil {
					t.Error(err)
				}
				if err := c.end(conn); err != nil {
					t.Error(err)
				}
				if _, err := conn.Write([]byte("more")); err == nil {
					t.Error("it can be written to after its end")
				}
				if b, err := io.ReadAll(conn); string(b) != c.answer || (err == nil) != (c.answer != "") {
					t.Errorf("answer %q, %v", b, err)
				}
				if n := <-got; n != size {
					t.Errorf("%d of %d bytes arrived", n, size)
				}
			})
		})
	}
}
