package agentclient

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
)

// portGrace is how long a program may take for what was written to its port before the
// connection was closed.
const portGrace = 5 * time.Second

// DialPort is backend.PortDialer.DialPort. The connection has a CloseWrite; it is closed
// as a whole once the other side has nothing more to say. Close does not wait: what was
// written by then still reaches a program that reads it.
func (c *Client) DialPort(ctx context.Context, port int) (net.Conn, error) {
	const op = "DialPort"
	if port < 1 || port > 65535 {
		return nil, backend.Errorf(backend.KindInvalidRequest, op, "port: %d is none", port)
	}
	st, err := c.begun(ctx, op, agentwire.OpDial, &agentwire.Number{N: port}, &agentwire.Empty{})
	if err != nil {
		return nil, err
	}
	p := &portConn{}
	var out, in net.Conn
	p.Conn, in = net.Pipe()
	p.out, out = net.Pipe()
	var life context.Context
	life, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { // ends when the caller writes no more, or the stream has ended
		readErr, sendErr := sendContent(life, st, agentwire.ChanContent, out)
		if readErr == nil && sendErr == nil {
			_ = st.SendMessage(life, agentwire.ChanContent, &agentwire.ContentEnd{})
		}
		_ = out.Close() // what the stream does not take any more, the caller cannot write
	}()
	go func() { // ends when the stream does, at the latest some time after Close
		defer func() { p.stop(); st.Leave(); _ = in.Close(); _ = out.Close() }()
		for {
			it, err := st.Recv(life)
			switch {
			case err != nil:
				return
			case it.Message:
				_ = in.Close()
				p.end()
			default:
				_, _ = in.Write(it.Data) // what nobody reads must not keep the end away
			}
		}
	}()
	return p, nil
}

// portConn is a connection to a port: the caller's ends of two pipes, so that each
// direction has an end of its own.
type portConn struct {
	net.Conn          // what the program says
	out      net.Conn // what it is told
	stop     func()
	late     sync.Once
}

func (p *portConn) Write(b []byte) (int, error) { return p.out.Write(b) }

// CloseWrite sends end of file; reading goes on.
func (p *portConn) CloseWrite() error { return p.out.Close() }

func (p *portConn) Close() error {
	_ = p.Conn.Close()
	p.end()
	return nil
}

// end lets the program have what was written, and its end, for a while: a program that
// does not read would hold the stream for ever.
func (p *portConn) end() {
	_ = p.out.Close()
	p.late.Do(func() { time.AfterFunc(portGrace, p.stop) })
}

func (p *portConn) SetDeadline(t time.Time) error {
	_ = p.SetWriteDeadline(t)
	return p.SetReadDeadline(t)
}

func (p *portConn) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }
