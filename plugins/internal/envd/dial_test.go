package envd_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/sdk/backend"
)

// desktop serves a port as websockify does.
func desktop(t *testing.T, banner string, down bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.Header.Get("Upgrade") == "":
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case r.URL.Path != "/websockify":
			http.NotFound(w, r)
			return
		case user != "viewer" || password != "canary-desktop":
			w.Header().Set("WWW-Authenticate", `Basic realm="Websockify"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
		if err != nil {
			return
		}
		defer ws.CloseNow()
		if down {
			_ = ws.Close(websocket.StatusInternalError, "Failed to connect to downstream server")
			return
		}
		conn := websocket.NetConn(context.WithoutCancel(r.Context()), ws, websocket.MessageBinary)
		_, _ = io.WriteString(conn, banner)
		_, _ = io.Copy(conn, conn)
	})
}

var viewer = map[string]string{"Authorization": "Basic dmlld2VyOmNhbmFyeS1kZXNrdG9w"} // viewer:canary-desktop

// TestWebSocket: a desktop's bytes in both directions, with the tokens that the port
// needs, and everything that may be wrong with it.
func TestWebSocket(t *testing.T) {
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, options{style: style})
			ref := s.sandbox()
			dial := func(path, protocol string, header map[string]string) (net.Conn, error) {
				return s.DialWebSocket(t.Context(), ref, 6080, path, protocol, header)
			}
			_, err := dial("/websockify", "binary", viewer)
			wantKind(t, "nobody listens", err, backend.KindUnavailable)

			s.box(ref).machine.Handle(6080, desktop(t, "RFB 003.008\n", false))
			conn, err := dial("/websockify", "binary", viewer)
			if err != nil {
				t.Fatal(err)
			}
			want := "RFB 003.008\n" + strings.Repeat("x", 100_000)
			go func() { _, _ = io.WriteString(conn, want[12:]) }()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if err := conn.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			_, err = dial("/websockify", "base64", viewer)
			wantKind(t, "another subprotocol", err, backend.KindUnsupported)
			_, err = dial("/websockify", "binary", nil)
			wantKind(t, "no password", err, backend.KindAuthentication)
			_, err = dial("/elsewhere", "binary", viewer)
			wantKind(t, "another path", err, backend.KindUnsupported)

			s.box(ref).machine.Handle(6080, desktop(t, "", true))
			conn, err = dial("/websockify", "binary", viewer)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = conn.Read(make([]byte, 1))
			wantKind(t, "a desktop that is down", err, backend.KindUnavailable)
		})
	}
}

// TestDialPort: HTTP through a connection, as a client of a port of the sandbox speaks
// it, with its own headers left alone and without ours reaching anybody else.
func TestDialPort(t *testing.T) {
	s := newStand(t, options{})
	ref := s.sandbox()
	s.box(ref).machine.Handle(8000, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %q %q", r.Method, r.URL, r.Header.Get("Authorization"), b, r.Header.Get("X-Access-Token"))
	}))
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return s.DialPort(ctx, ref, 8000)
	}}}
	defer client.CloseIdleConnections()
	for i := range 3 {
		req, err := http.NewRequestWithContext(t.Context(), "POST", fmt.Sprintf("http://inside/path?n=%d", i), strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer own")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if want := fmt.Sprintf(`POST /path?n=%d Bearer own "body" ""`, i); err != nil || string(b) != want {
			t.Errorf("answer %q, %v, want %q", b, err, want)
		}
	}
	_, err := s.DialPort(t.Context(), ref, 8001)
	wantKind(t, "nobody listens", err, backend.KindUnavailable)
	conn, err := s.DialPort(t.Context(), ref, 8000)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("after Close: %v", err)
	}
}

// noted is a connection that says when it was closed.
type noted struct {
	net.Conn
	closed func()
}

func (n *noted) Close() error {
	n.closed()
	return n.Conn.Close()
}

// TestDialPortUpgraded: what was upgraded ends with the connection, although the program
// neither reads nor says anything more.
func TestDialPortUpgraded(t *testing.T) {
	closed, release := make(chan struct{}), make(chan struct{})
	note := sync.OnceFunc(func() { close(closed) })
	s := newStand(t, options{change: func(o *envd.Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &noted{c, note}, c.(*net.TCPConn).SetWriteBuffer(4096)
		}
	}})
	defer close(release)
	ref := s.sandbox()
	s.box(ref).machine.Handle(8000, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mute\r\n\r\n")
		<-release
	}))
	conn, err := s.DialPort(t.Context(), ref, 8000)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: inside\r\nConnection: Upgrade\r\nUpgrade: mute\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("answer %v, %v", res, err)
	}
	for err == nil { // until nothing more is taken
		_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		_, err = conn.Write(make([]byte, 64<<10))
	}
	select {
	case <-closed:
		t.Fatal("it broke before it was closed")
	default:
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Error("the connection to the gateway stays open")
	}
}
