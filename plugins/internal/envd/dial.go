package envd

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// portTransport sends requests to a port that is not the daemon's.
type portTransport struct {
	c    *Client
	b    *box
	port int
}

func (t *portTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	agent := req.Header.Get("User-Agent")
	t.c.authorize(req.Header, t.b.endpoint, t.port)
	if agent != "" {
		req.Header.Set("User-Agent", agent)
	}
	return t.c.send(req)
}

func (b *box) url(c *Client, port int) string {
	scheme := "http://"
	if c.secure {
		scheme = "https://"
	}
	return scheme + c.host(b.id, b.endpoint, port)
}

func (c *Client) checkPort(op string, port int) error {
	if port < 1 || port > 65535 {
		return c.fail(op, backend.KindInvalidRequest, "port: %d is none", port)
	}
	return nil
}

// DialPort implements backend.PortDialer. The connection speaks HTTP/1.1 to the port,
// upgrades included: gateways route by HTTP host, so that nothing else gets through.
func (c *Client) DialPort(ctx context.Context, ref backend.Ref, port int) (net.Conn, error) {
	const op = "DialPort"
	if err := c.checkPort(op, port); err != nil {
		return nil, err
	}
	var at *box
	short, cancel := c.short(ctx)
	defer cancel()
	err := c.do(short, call{op: op, id: ref.ID}, func(ctx context.Context, b *box) error {
		at = b
		return c.knock(ctx, b, port)
	})
	if err != nil {
		return nil, err
	}
	return c.proxy(at, port), nil
}

// knock asks whether anybody listens. Any answer but the gateway's own is a yes.
func (c *Client) knock(ctx context.Context, b *box, port int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, b.url(c, port)+"/", nil)
	if err != nil {
		return err
	}
	res, err := (&portTransport{c, b, port}).RoundTrip(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	switch res.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusGone:
		// HEAD has no body to tell by: only a control plane knows more.
		return &fault.Reply{Status: res.StatusCode, Text: "nobody answers at the port"}
	case http.StatusForbidden, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusConflict:
		return fault.Read(res)
	}
	return nil
}

// proxied is one end of a pipe whose other end is served by a proxy.
type proxied struct {
	net.Conn
	server *http.Server
	once   sync.Once
	stop   context.CancelFunc
	done   chan struct{}
}

func (p *proxied) Close() error {
	err := p.Conn.Close()
	p.once.Do(func() {
		p.stop() // the server does not know of connections that were upgraded
		_ = p.server.Close()
	})
	<-p.done
	return err
}

// proxy serves a connection by passing requests on to a port.
func (c *Client) proxy(b *box, port int) net.Conn {
	ours, theirs := net.Pipe()
	host := c.host(b.id, b.endpoint, port)
	scheme := "http"
	if c.secure {
		scheme = "https"
	}
	life, stop := context.WithCancel(context.Background())
	p := &proxied{Conn: ours, stop: stop, done: make(chan struct{})}
	p.server = &http.Server{
		BaseContext:       func(net.Listener) context.Context { return life },
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = scheme, host, host
			},
			Transport:     &portTransport{c, b, port},
			FlushInterval: -1,
			ErrorLog:      log.New(io.Discard, "", 0),
		},
	}
	lis := &oneConn{conn: theirs, addr: theirs.LocalAddr(), closed: make(chan struct{})}
	p.server.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			_ = lis.Close()
		}
	}
	go func() {
		defer close(p.done)
		_ = p.server.Serve(lis)
		_ = theirs.Close()
	}()
	return p
}

// oneConn is a listener that accepts one connection.
type oneConn struct {
	mu     sync.Mutex
	conn   net.Conn
	addr   net.Addr
	once   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.conn = nil
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return l.addr }

// pingEvery keeps gateways from cutting a quiet connection.
const pingEvery = 30 * time.Second

// DialWebSocket returns the bytes of a binary WebSocket that a port of the sandbox
// serves at path, as websockify does for a desktop. It offers the one subprotocol and
// refuses a server that does not choose it. header is added to the handshake; ctx
// bounds the dialling only. A server that hangs up because what it stands for is not
// there ends Read with KindUnavailable.
func (c *Client) DialWebSocket(ctx context.Context, ref backend.Ref, port int, path, subprotocol string, header map[string]string) (net.Conn, error) {
	const op = "DialPort"
	if err := c.checkPort(op, port); err != nil {
		return nil, err
	}
	var ws *websocket.Conn
	short, cancel := c.short(ctx)
	defer cancel()
	err := c.do(short, call{op: op, id: ref.ID}, func(ctx context.Context, b *box) error {
		h := make(http.Header)
		for k, v := range header {
			h.Set(k, v)
		}
		conn, res, err := websocket.Dial(ctx, b.url(c, port)+path, &websocket.DialOptions{
			HTTPClient: &http.Client{
				Transport:     &portTransport{c, b, port},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			},
			HTTPHeader: h, Subprotocols: []string{subprotocol}, CompressionMode: websocket.CompressionDisabled,
		})
		if err != nil {
			if res != nil && res.StatusCode != http.StatusSwitchingProtocols && res.Body != nil {
				return fault.Read(res)
			}
			return err
		}
		if conn.Subprotocol() != subprotocol {
			_ = conn.CloseNow()
			return c.fail(op, backend.KindUnsupported, "the server did not choose the subprotocol %q", subprotocol)
		}
		ws = conn
		return nil
	})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1) // it is a stream of bytes: no message is held whole
	life, end := context.WithCancel(context.Background())
	s := &socket{Conn: websocket.NetConn(life, ws, websocket.MessageBinary), c: c, op: op, end: end, done: make(chan struct{})}
	go s.ping(life, ws)
	return s, nil
}

// socket is a WebSocket as a connection.
type socket struct {
	net.Conn
	c    *Client
	op   string
	end  context.CancelFunc
	done chan struct{}
}

func (s *socket) ping(ctx context.Context, ws *websocket.Conn) {
	defer close(s.done)
	for sleep(ctx, pingEvery) == nil {
		wait, cancel := context.WithTimeout(ctx, pingEvery/2)
		_ = ws.Ping(wait) // the answer is read by whoever reads, if anybody does
		cancel()
	}
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		var ce websocket.CloseError
		if errors.As(err, &ce) && ce.Code == websocket.StatusInternalError {
			err = s.c.fail(s.op, backend.KindUnavailable, "the server in the sandbox reaches nothing: is the desktop running?")
		}
	}
	return n, err
}

func (s *socket) Close() error {
	err := s.Conn.Close()
	s.end()
	<-s.done
	return err
}
