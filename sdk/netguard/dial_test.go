package netguard

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// TestRebinding: a name that was public when it was saved is refused when it answers
// otherwise at the moment of the connection.
func TestRebinding(t *testing.T) {
	hits := 0
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	dns := &names{answers: map[string][][]string{"rebind.test": {{"93.184.215.14"}, {"127.0.0.1"}}}}
	g := guard(t, Policy{Resolver: dns})
	target := "http://rebind.test:" + port
	if _, err := g.Validate(t.Context(), target); err != nil {
		t.Fatalf("at save: %v", err)
	}
	client := g.Client(TransportOptions{})
	defer client.CloseIdleConnections()
	_, err := client.Get(target)
	var blocked *BlockedError
	if !errors.As(err, &blocked) || blocked.Class != Loopback || hits != 0 {
		t.Errorf("at connect: %v, %d requests arrived", err, hits)
	}
}

// TestControl: a dialer that resolves by itself is stopped at the socket.
func TestControl(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	for name, c := range map[string]struct {
		policy Policy
		ok     bool
	}{"strict": {Policy{}, false}, "private": {Policy{AllowPrivate: true}, true}, "port": {Policy{AllowPrivate: true, Ports: []uint16{1}}, false}} {
		d := net.Dialer{Control: guard(t, c.policy).Control}
		conn, err := d.DialContext(t.Context(), "tcp", lis.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != c.ok || !c.ok && !errors.Is(err, ErrBlocked) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g := guard(t, Policy{AllowPrivate: true})
	for _, c := range [][2]string{
		{"udp", "127.0.0.1:53"}, {"unix", "/run/x.sock"}, {"tcp", "localhost:80"}, {"tcp6", "[fe80::1%lo]:80"}, {"tcp4", "127.0.0.1:0"}, {"tcp4", "169.254.169.254:80"},
	} {
		if err := g.Control(c[0], c[1], nil); !errors.Is(err, ErrBlocked) {
			t.Errorf("Control(%s, %s) = %v", c[0], c[1], err)
		}
		if conn, err := g.DialContext(t.Context(), c[0], c[1]); c[1] != "localhost:80" && !errors.Is(err, ErrBlocked) {
			if err == nil {
				_ = conn.Close()
			}
			t.Errorf("DialContext(%s, %s) = %v", c[0], c[1], err)
		}
	}
}

// TestDialNextAddress: an address where nobody listens is not the end.
func TestDialNextAddress(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	_, port, _ := net.SplitHostPort(lis.Addr().String())
	g := guard(t, Policy{AllowPrivate: true, Resolver: &names{answers: map[string][][]string{"two.test": {{"127.0.0.77", "::ffff:127.0.0.1"}}}}})
	conn, err := g.DialContext(t.Context(), "tcp", "two.test:"+port)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// TestNoProxy: the environment does not choose where connections go.
func TestNoProxy(t *testing.T) {
	proxied := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied++ }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	g := guard(t, Policy{})
	if p := g.Transport(TransportOptions{}).Proxy; p != nil {
		t.Error("the transport asks for a proxy")
	}
	client := g.Client(TransportOptions{})
	defer client.CloseIdleConnections()
	_, err := client.Get("http://127.0.0.1:1/")
	if !errors.Is(err, ErrBlocked) || proxied != 0 {
		t.Errorf("%v, %d requests at the proxy", err, proxied)
	}
}

// TestRedirect: a redirect is an error, and the header with the key goes nowhere.
func TestRedirect(t *testing.T) {
	seen := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen++ }))
	defer other.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	client := guard(t, Policy{AllowPrivate: true}).Client(TransportOptions{})
	defer client.CloseIdleConnections()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader("x"))
	req.Header.Set("X-API-Key", "k")
	_, err := client.Do(req)
	if !errors.Is(err, ErrBlocked) || seen != 0 {
		t.Errorf("%v, %d requests followed", err, seen)
	}
}

// TestVia: a gateway is dialled, and the request's own host only names it.
func TestVia(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) }))
	defer srv.Close()
	u, _ := url.Parse(srv.URL)
	client := guard(t, Policy{AllowPrivate: true}).Client(TransportOptions{Via: u.Host, HTTP1: true})
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://49983-iabc.sandbox.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "49983-iabc.sandbox.test" {
		t.Errorf("the gateway saw host %q", body)
	}
	strict := guard(t, Policy{}).Client(TransportOptions{Via: u.Host})
	defer strict.CloseIdleConnections()
	if _, err := strict.Get("http://49983-iabc.sandbox.test/"); !errors.Is(err, ErrBlocked) {
		t.Errorf("a gateway in a private network: %v", err)
	}
}

// TestHTTP1: web sockets need it, so it must hold with TLS too.
func TestHTTP1(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	for http1, want := range map[bool]string{true: "HTTP/1.1", false: "HTTP/2.0"} {
		config := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.NextProtos = nil
		client := guard(t, Policy{AllowPrivate: true}).Client(TransportOptions{HTTP1: http1, TLS: config})
		resp, err := client.Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		client.CloseIdleConnections()
		if string(body) != want {
			t.Errorf("HTTP1 %v speaks %s", http1, body)
		}
	}
}

func BenchmarkCheckAddr(b *testing.B) {
	g := guard(b, Policy{})
	a := netip.MustParseAddr("2606:4700::1111")
	b.ReportAllocs()
	for b.Loop() {
		if err := g.CheckAddr(a); err != nil {
			b.Fatal(err)
		}
	}
}
