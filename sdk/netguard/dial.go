package netguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// Control is for net.Dialer.Control and its like: it decides about the concrete
// address of a socket that is about to connect. Only TCP passes.
func (g *Guard) Control(network, address string, _ syscall.RawConn) error {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return &BlockedError{Host: address, Reason: fmt.Sprintf("network %q is not TCP", network)}
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &BlockedError{Host: address, Reason: fmt.Sprintf("%q is no address", address)}
	}
	host, port, _ := net.SplitHostPort(address)
	if err := g.checkPort(host, port); err != nil {
		return err
	}
	return g.CheckAddr(ap.Addr())
}

// dialTimeout bounds one attempt to connect.
const dialTimeout = 10 * time.Second

// DialContext connects like net.Dialer.DialContext, but only where the policy allows:
// the host is judged before it is resolved, all of its addresses before one is
// dialled, and each once more by the socket that connects.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, &BlockedError{Host: address, Reason: fmt.Sprintf("network %q is not TCP", network)}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &BlockedError{Host: address, Reason: fmt.Sprintf("%q is no host and port", address)}
	}
	if err := g.checkPort(host, port); err != nil {
		return nil, err
	}
	addrs, err := g.resolve(ctx, network, host)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout, Control: g.Control}
	errs := make([]error, 0, len(addrs))
	for _, a := range addrs {
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// TransportOptions of Transport and Client. The zero value is right for most.
type TransportOptions struct {
	// Via, a host and port, is dialled instead of whatever a request names, which
	// then only chooses the Host header and the name that TLS verifies: a gateway
	// that routes by host. It is judged like any address.
	Via string
	// TLS defaults to the system's certificate authorities and TLS 1.2.
	TLS *tls.Config
	// HTTP1 keeps to HTTP/1.1, which web sockets and some gateways need.
	HTTP1 bool
	// IdleConns bounds idle connections of each host; 0 means 16.
	IdleConns int
	// HeaderTimeout bounds waiting for the reply's header; 0 is no bound.
	HeaderTimeout time.Duration
}

// Transport returns a transport whose every connection the guard decided about. It
// ignores the proxies of the environment. The caller ends it by CloseIdleConnections.
func (g *Guard) Transport(o TransportOptions) *http.Transport {
	dial := g.DialContext
	if o.Via != "" {
		dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return g.DialContext(ctx, network, o.Via)
		}
	}
	config := o.TLS
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	idle := o.IdleConns
	if idle == 0 {
		idle = 16
	}
	t := &http.Transport{
		Proxy:                 nil, // a proxy would connect where nobody decided
		DialContext:           dial,
		TLSClientConfig:       config.Clone(),
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: o.HeaderTimeout,
		MaxIdleConns:          4 * idle,
		MaxIdleConnsPerHost:   idle,
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     !o.HTTP1,
	}
	if o.HTTP1 {
		t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	return t
}

// RefuseRedirect is for http.Client.CheckRedirect: credentials do not follow an
// address that somebody else chose.
func RefuseRedirect(req *http.Request, _ []*http.Request) error {
	return &BlockedError{Host: req.URL.Host, Reason: fmt.Sprintf("a redirect to host %q is not followed", req.URL.Host)}
}

// Client returns a client over Transport that follows no redirect and checks every
// URL. It has no timeout: bound calls by their contexts.
func (g *Guard) Client(o TransportOptions) *http.Client {
	return &http.Client{Transport: &checked{g: g, next: g.Transport(o), via: o.Via != ""}, CheckRedirect: RefuseRedirect}
}

// checked looks at URLs before they cause anything.
type checked struct {
	g    *Guard
	next *http.Transport
	via  bool
}

func (c *checked) RoundTrip(req *http.Request) (*http.Response, error) {
	// Behind a gateway the URL's host is no address at all.
	if !c.via {
		if _, err := c.g.CheckURL(req.URL.Scheme + "://" + strings.TrimSpace(req.URL.Host)); err != nil {
			if req.Body != nil {
				_ = req.Body.Close()
			}
			return nil, err
		}
	}
	return c.next.RoundTrip(req)
}

// CloseIdleConnections is what http.Client.CloseIdleConnections calls.
func (c *checked) CloseIdleConnections() { c.next.CloseIdleConnections() }
