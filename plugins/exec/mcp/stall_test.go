package mcp

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
)

// pipes is a network without buffers: what nobody reads cannot be written.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// alone mounts a server for the users of one organisation.
type alone struct {
	mux     *http.ServeMux
	closers []func(context.Context) error
}

func (a *alone) Prefixes(...string) {}
func (a *alone) Handle(pattern string, h http.Handler, _ func(http.ResponseWriter, *http.Request, *host.HTTPError)) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(host.WithPrincipal(r.Context(), host.Principal{Org: "o", User: r.Header.Get("X-User"), Via: host.ViaBearer})))
	})
}
func (a *alone) Intercept(func(http.ResponseWriter, *http.Request) bool) {}
func (a *alone) OnClose(f func(context.Context) error)                   { a.closers = append(a.closers, f) }

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

const notice = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

// A client that reads no byte of an answer is given up, however short the answer is
// and however the server sends it: with a flush, or once the handler has returned.
func TestStalledReader(t *testing.T) {
	s, err := New(Options{Handler: nothing, Stall: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	m := &alone{mux: http.NewServeMux()}
	s.Mount(m)
	defer func() {
		if err := m.closers[0](t.Context()); err != nil {
			t.Error(err)
		}
	}()
	closed := make(chan struct{}, 1)
	server := &http.Server{Handler: m.mux, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}}
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = server.Serve(l) }()
	defer func() { _ = server.Close(); <-stopped }()
	for name, request := range map[string]string{
		"an event":   "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: " + strconv.Itoa(len(hello)) + "\r\n\r\n" + hello,
		"a refusal":  "DELETE /mcp HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: x\r\n\r\n",
		"only heads": "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2025-06-18\r\nContent-Length: " + strconv.Itoa(len(notice)) + "\r\n\r\n" + notice,
	} {
		client, conn := net.Pipe()
		l.conns <- conn
		if _, err := io.Copy(client, strings.NewReader(request)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the server still waits for its reader", name)
			_ = client.Close()
			<-closed
		}
		_ = client.Close()
	}
}
