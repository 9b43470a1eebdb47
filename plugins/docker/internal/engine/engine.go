// Package engine is a client of one Docker engine: what the backend needs of its
// API, with the engine's errors made neutral. It knows nothing of sandboxes.
package engine

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
)

const (
	dialTimeout = 10 * time.Second
	// CallTimeout bounds calls that an engine answers at once. Starting, stopping,
	// committing and pulling, and everything that carries content, go by the
	// caller's context alone.
	CallTimeout = 30 * time.Second
)

// Engine is one engine. It is safe for concurrent use.
type Engine struct {
	host string
	http *http.Transport
	// before is the client until a version is agreed on, and agreed the one after. The
	// library agrees by itself while others read the version: not here.
	before    *client.Client
	agreed    atomic.Pointer[client.Client]
	agreement chan struct{} // held while a version is being agreed on

	mu   sync.Mutex
	info *system.Info // of the engine's last start that we know of
}

// oldest is the API of the oldest engine that this works with, 20.10.
const oldest = "1.41"

// Open makes a client; it connects on the first call. The files of a certificate
// are read now.
func Open(at settings.Endpoint) (*Engine, error) {
	dial, host := dialUnix(at.Unix), "unix://"+at.Unix
	if !at.Local() {
		config, err := clientTLS(at)
		if err != nil {
			return nil, err
		}
		dial, host = dialTLS(at.TCP, config), "tcp://"+at.TCP
	}
	// The transport dials by itself, so that streams are set up by the same rules as
	// calls, end with their context, and no proxy of the environment is asked.
	t := &http.Transport{DialContext: telling(dial), MaxIdleConns: 32, MaxIdleConnsPerHost: 32, IdleConnTimeout: 30 * time.Second}
	e := &Engine{host: host, http: t, agreement: make(chan struct{}, 1)}
	var err error
	if e.before, err = e.client(oldest); err != nil {
		return nil, errors.New("the engine's address cannot be used")
	}
	return e, nil
}

func (e *Engine) client(version string) (*client.Client, error) {
	return client.NewClientWithOpts(
		client.WithHost(e.host),
		client.WithHTTPClient(&http.Client{Transport: e.http, CheckRedirect: client.CheckRedirect}),
		client.WithScheme("http"),
		client.WithVersion(version),
	)
}

// Client is the client to call the engine with, in the newest version of the API that
// both know. Its errors go through Fail. ctx bounds the question to the engine, which
// is asked once, or as long as it does not answer; then calls fail anyway.
func (e *Engine) Client(ctx context.Context) *client.Client {
	if c := e.agreed.Load(); c != nil {
		return c
	}
	select {
	case e.agreement <- struct{}{}:
		defer func() { <-e.agreement }()
	case <-ctx.Done():
		return e.before
	}
	if c := e.agreed.Load(); c != nil {
		return c
	}
	ctx, cancel := Short(ctx)
	defer cancel()
	ping, err := e.before.Ping(ctx)
	if err != nil {
		return e.before
	}
	e.agree(ping.APIVersion)
	return cmp.Or(e.agreed.Load(), e.before)
}

// agree takes the newest version that both know, the engine's being the one it said.
func (e *Engine) agree(engines string) {
	version := api.DefaultVersion
	if engines == "" {
		engines = oldest
	}
	if versions.LessThan(engines, version) {
		version = engines
	}
	if c := e.agreed.Load(); c != nil && c.ClientVersion() == version {
		return
	}
	if c, err := e.client(version); err == nil {
		e.agreed.Store(c)
	}
}

// Close ends idle connections.
func (e *Engine) Close() { e.http.CloseIdleConnections() }

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// telling tells whoever the context names of the connection.
func telling(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if h, ok := ctx.Value(holder{}).(*held); ok && err == nil {
			h.hold(conn)
		}
		return conn, err
	}
}

func dialUnix(path string) dialer {
	d := net.Dialer{Timeout: dialTimeout}
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) }
}

func dialTLS(addr string, config *tls.Config) dialer {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}, Config: config}
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
}

// clientTLS reads a client certificate. Errors name the key of the config, never
// the file.
func clientTLS(at settings.Endpoint) (*tls.Config, error) {
	pem, err := os.ReadFile(at.CA)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("tls_ca: holds no certificate that can be read")
	}
	cert, err := tls.LoadX509KeyPair(at.Cert, at.Key)
	if err != nil {
		return nil, errors.New("tls_cert, tls_key: hold no certificate with its key that can be read")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{cert}}, nil
}

// Info describes the engine; it is asked once, since what is used of it does not
// change while an engine runs. Forget makes the next call ask again.
func (e *Engine) Info(ctx context.Context) (system.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.info != nil {
		return *e.info, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, CallTimeout, errSlow)
	defer cancel()
	info, err := e.Client(ctx).Info(ctx)
	if err != nil {
		return system.Info{}, err
	}
	e.info = &info
	return info, nil
}

// Ping reports whether the engine answers.
func (e *Engine) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, CallTimeout, errSlow)
	defer cancel()
	ping, err := e.Client(ctx).Ping(ctx)
	if err != nil {
		e.mu.Lock()
		e.info = nil
		e.mu.Unlock()
		return err
	}
	e.agree(ping.APIVersion) // it may be another engine by now
	return nil
}

// Short returns a context for a call that an engine answers at once.
func Short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, CallTimeout, errSlow)
}

// errSlow tells the engine's time from the caller's.
var errSlow = errors.New("the engine does not answer")
