// Package admin lets operators' commands talk to the server that holds a data
// directory: HTTP over a unix socket in that directory. Who may open the socket,
// which only the server's user can, may do everything there is. It is the server
// that answers because some sandboxes can be reached through its plugins only.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// SocketFile is the socket's name in the data directory.
const SocketFile = "admin.sock"

// Timeouts of the server's side.
const (
	readTimeout = 10 * time.Second
	stopTimeout = 5 * time.Second
	maxReply    = 64 << 20
)

// ErrNoServer: no server listens in the data directory.
var ErrNoServer = errors.New("no server runs with this data directory")

// ErrNotFound: there is no such session, or plugin.
var ErrNotFound = session.ErrNotFound

// Session is one session as operators see it.
type Session struct {
	ID string `json:"id"`
	// Name is the platform's own, for sessions that it names.
	Name       string        `json:"name,omitempty"`
	Org        string        `json:"org"`
	User       string        `json:"user,omitempty"`
	Origin     string        `json:"origin"`
	Config     string        `json:"config"`
	Sandbox    string        `json:"sandbox"`
	State      backend.State `json:"state"`
	Created    time.Time     `json:"created,omitzero"`
	LastActive time.Time     `json:"last_active,omitzero"`
	Expires    time.Time     `json:"expires,omitzero"`
}

// Sessions is the answer to a listing. Failed says which backends could not be
// asked; the others' sessions are there all the same.
type Sessions struct {
	Sessions []Session `json:"sessions"`
	Failed   string    `json:"failed,omitempty"`
}

// Swept is what a sweep did.
type Swept struct {
	host.SweepReport
	Failed string `json:"failed,omitempty"`
}

// Host is what the server's side needs. *host.Host implements all but Reload.
type Host interface {
	AllSessions(ctx context.Context) ([]backend.Sandbox, error)
	EndSession(ctx context.Context, id string) error
	Sweep(ctx context.Context) (host.SweepReport, error)
	PluginOperator
	PolicyOperator
	// Telemetry is what is measured; it may be nil.
	Telemetry() *telemetry.Telemetry
}

// Server answers in a data directory.
type Server struct {
	http *http.Server
	done chan struct{}
}

// Serve listens in dir, which belongs to this process: a socket that is there is
// one that a killed server left.
func Serve(ctx context.Context, dir string, h Host, log hclog.Logger) (*Server, error) {
	path, release, err := socketPath(dir)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	defer release()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	// The data directory is closed to others; the socket is too, in case it is not.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("admin socket: %w", err), l.Close())
	}
	// The path may go by way of a descriptor that is gone at the end.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return start(l, routes(h), log), nil
}

// ServeAddress answers on an address of its own, to whoever brings the credential
// as a bearer token. It takes l over.
func ServeAddress(l net.Listener, credential string, h Host, log hclog.Logger) (*Server, error) {
	guarded, err := guard(credential, routes(h))
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return start(l, guarded, log), nil
}

func start(l net.Listener, h http.Handler, log hclog.Logger) *Server {
	s := &Server{
		http: &http.Server{
			Handler: h, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, IdleTimeout: readTimeout,
			ErrorLog: log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("operators are not answered any more", "address", l.Addr().String(), "error", err)
		}
	}()
	return s
}

// Close stops answering.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	return err
}

func routes(h Host) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sessions", func(w http.ResponseWriter, r *http.Request) {
		list, err := h.AllSessions(r.Context())
		out := Sessions{Sessions: make([]Session, len(list))}
		for i, sb := range list {
			out.Sessions[i] = describe(sb)
		}
		if err != nil {
			out.Failed = err.Error()
		}
		reply(w, http.StatusOK, out)
	})
	mux.HandleFunc("DELETE /sessions/{id}", func(w http.ResponseWriter, r *http.Request) {
		switch err := h.EndSession(r.Context(), r.PathValue("id")); {
		case errors.Is(err, session.ErrNotFound):
			reply(w, http.StatusNotFound, failure{Error: err.Error()})
		case err != nil:
			reply(w, http.StatusInternalServerError, failure{Error: err.Error()})
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
	mux.HandleFunc("POST /sweep", func(w http.ResponseWriter, r *http.Request) {
		report, err := h.Sweep(r.Context())
		out := Swept{SweepReport: report}
		if err != nil {
			out.Failed = err.Error()
		}
		reply(w, http.StatusOK, out)
	})
	pluginRoutes(mux, h)
	policyRoutes(mux, h)
	telemetryRoutes(mux, h.Telemetry())
	return mux
}

func describe(sb backend.Sandbox) Session {
	m := sb.Metadata
	return Session{
		ID: m.Session, Name: m.Labels[session.LabelSession], Org: m.Tenant, User: m.User, Origin: m.Origin, Config: sb.Config,
		Sandbox: sb.ID, State: sb.State, Created: sb.Created, LastActive: sb.LastActive, Expires: sb.Expires,
	}
}

type failure struct {
	Error string `json:"error"`
	// Kind is kindAbsent or empty.
	Kind string `json:"kind,omitempty"`
}

// kindAbsent: what was named is not there.
const kindAbsent = "not_found"

// absent is the server's word that what was named is not there.
type absent string

func (a absent) Error() string        { return string(a) }
func (a absent) Is(target error) bool { return target == ErrNotFound }

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // whoever asked has gone
}

// Client asks the server that holds a data directory.
type Client struct {
	http    *http.Client
	release func()
}

// Dial returns a client for dir. It connects when it is used.
func Dial(dir string) (*Client, error) {
	path, release, err := socketPath(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoServer
	}
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	return &Client{release: release, http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}}}, nil
}

// Close gives the client back.
func (c *Client) Close() { c.release() }

// List returns every session of the deployment.
func (c *Client) List(ctx context.Context) (out Sessions, err error) {
	return out, c.do(ctx, http.MethodGet, "/sessions", nil, &out)
}

// End ends a session, or is ErrNotFound.
func (c *Client) End(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/sessions/"+url.PathEscape(id), nil, nil)
}

// Sweep sweeps now.
func (c *Client) Sweep(ctx context.Context) (out Swept, err error) {
	return out, c.do(ctx, http.MethodPost, "/sweep", nil, &out)
}

// do sends in, unless it is nil, and reads the answer into out, unless that is.
func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var sent io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://caisson"+path, sent)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return ErrNoServer
		}
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	switch {
	case err != nil:
		return err
	case res.StatusCode == http.StatusNotFound:
		return ErrNotFound
	case res.StatusCode >= http.StatusBadRequest:
		var f failure
		if json.Unmarshal(body, &f) != nil || f.Error == "" {
			f.Error = res.Status
		}
		if f.Kind == kindAbsent {
			return absent(f.Error)
		}
		return errors.New(f.Error)
	case out == nil:
		return nil
	}
	return json.Unmarshal(body, out)
}
