//go:build linux

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/work"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

func (s *Server) terminal(ctx context.Context, st *agentwire.Stream) []byte {
	var m agentwire.Terminal
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	t, err := s.openTerminal(&m)
	if err != nil {
		return fault(err)
	}
	if err := st.SendMessage(ctx, agentwire.ChanStarted, &agentwire.Number{N: t.PID()}); err != nil {
		return fault(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer stop()
		for {
			it, err := st.Recv(ctx)
			if err != nil {
				return
			}
			switch {
			case it.Channel == agentwire.ChanContent && !it.Message:
				err = t.Input(it.Data)
			case it.Channel == agentwire.ChanSize && it.Message:
				var size agentwire.Size
				if err = agentwire.Decode(it.Data, &size); err == nil {
					_ = t.Resize(size)
				}
			}
			if err != nil {
				// It ended, which the other direction finds out with what it still showed.
				<-ctx.Done()
				return
			}
		}
	}()
	code, err := t.Attach(ctx, func(p []byte) error { return st.Send(ctx, agentwire.ChanContent, p) })
	if err != nil {
		return fault(err)
	}
	return agentwire.Answer(&agentwire.Number{N: code}, nil)
}

func (s *Server) openTerminal(m *agentwire.Terminal) (*work.Terminal, error) {
	if m.PID != 0 {
		t := s.Host.Terminal(m.PID)
		if t == nil {
			return nil, &agentwire.Fault{Kind: "not_found", Subject: "terminal", Text: "there is no terminal of this pid"}
		}
		if m.Size.Cols > 0 && m.Size.Rows > 0 {
			_ = t.Resize(m.Size)
		}
		return t, nil
	}
	for _, a := range m.Argv {
		if hasNUL(a) {
			return nil, invalid(errors.New("argv: an argument contains NUL"))
		}
	}
	if len(m.Argv) > 0 && m.Argv[0] == "" {
		return nil, invalid(errors.New("argv: a command is required"))
	}
	if m.Dir != "" {
		if err := files.CheckPath(m.Dir); err != nil {
			return nil, invalid(fmt.Errorf("dir: %w", err))
		}
	}
	if err := checkEnv(m.Env); err != nil {
		return nil, invalid(err)
	}
	return s.Host.OpenTerminal(m)
}

// dialPatience bounds dialling within the container.
const dialPatience = 10 * time.Second

// dial connects with a port of the container's own network.
func (s *Server) dial(ctx context.Context, st *agentwire.Stream) []byte {
	var m agentwire.Number
	if err := st.Request(&m); err != nil {
		return fault(invalid(err))
	}
	if m.N < 1 || m.N > 65535 {
		return fault(invalid(fmt.Errorf("port: %d is none", m.N)))
	}
	d := net.Dialer{Timeout: dialPatience}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(m.N)))
	if err != nil && ctx.Err() == nil {
		if c6, err6 := d.DialContext(ctx, "tcp", net.JoinHostPort("::1", strconv.Itoa(m.N))); err6 == nil {
			c, err = c6, nil
		}
	}
	if err != nil {
		return fault(&agentwire.Fault{Kind: "unavailable", Text: fmt.Sprintf("nobody answers at port %d", m.N)})
	}
	conn := c.(*net.TCPConn)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := st.SendMessage(ctx, agentwire.ChanStarted, &agentwire.Empty{}); err != nil {
		return fault(err)
	}
	in := make(chan struct{})
	go func() {
		defer close(in)
		if receiveContent(ctx, st, conn) == nil {
			_ = conn.CloseWrite()
			return
		}
		_ = conn.Close()
	}()
	buf := make([]byte, agentwire.MaxData)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if err := st.Send(ctx, agentwire.ChanContent, buf[:n]); err != nil {
				return fault(err)
			}
		}
		if errors.Is(err, io.EOF) {
			if st.SendMessage(ctx, agentwire.ChanContent, &agentwire.ContentEnd{}) == nil {
				<-in // the other direction may go on
			}
			return done(nil)
		}
		if err != nil {
			return fault(&agentwire.Fault{Kind: "unavailable", Text: "the connection inside the sandbox broke"})
		}
	}
}
