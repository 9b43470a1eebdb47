// Package server is the HTTP side of `caisson serve`: it listens before the
// host is open, answers 503 until told that it is, gives JSON where net/http
// would answer plain text, and stops in an orderly way.
//
// It knows no route, no credential and no plugin.
package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/linger"
	"github.com/hashicorp/go-hclog"
)

// Bounds on what a client may hold without sending or reading anything. There
// is no bound on a whole request: runs and uploads take as long as their own
// limits allow.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10

	// cutTimeout is what requests have to end after their context was cancelled.
	cutTimeout = 5 * time.Second
)

// Server serves one listener. It is a host.Router.
type Server struct {
	mux      *http.ServeMux
	methods  map[string]bool // of all routes
	http     *http.Server
	log      hclog.Logger
	cut      context.CancelFunc
	ready    atomic.Bool
	inFlight atomic.Int64
	linger   *linger.Closer
	done     chan struct{}
	failure  error // of the serve loop; read after done
}

// Start serves l, which the server closes. Every request is answered 503 until
// Ready is called. Register all routes before that.
func Start(l net.Listener, log hclog.Logger) *Server {
	base, cut := context.WithCancel(context.Background())
	s := &Server{mux: http.NewServeMux(), methods: make(map[string]bool), log: log, cut: cut, linger: linger.New(), done: make(chan struct{})}
	s.http = &http.Server{
		Handler: s,
		// OPTIONS * is answered here, with an id and a line of log like everything else.
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            readHeaderTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failure = err
		}
	}()
	return s
}

// Handle implements host.Router.
func (s *Server) Handle(pattern string, h http.Handler) {
	s.mux.Handle(pattern, routed{h})
	if method, _, ok := strings.Cut(pattern, " "); ok {
		s.methods[method] = true
	}
}

// HandleOwn registers a route of the server itself, whose requests nobody else logs. They
// are asked for every few seconds, and so logged at level debug.
func (s *Server) HandleOwn(pattern, route string, h http.Handler) {
	s.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, out := time.Now(), &counted{ResponseWriter: w}
		h.ServeHTTP(out, r)
		s.line(r, route, hclog.Debug, start, out)
	}))
}

// routed is a handler that was registered, as opposed to those that the mux makes.
type routed struct{ http.Handler }

// Ready lets requests through to the routes.
func (s *Server) Ready() { s.ready.Store(true) }

// Done is closed when the server no longer serves, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.done }

// InFlight is how many requests are being answered.
func (s *Server) InFlight() int64 { return s.inFlight.Load() }

// Shutdown stops accepting and waits for requests in flight. When ctx ends
// first, it cancels their contexts, gives them a few seconds to write what they
// have, and closes their connections. It returns what made the server stop
// earlier than asked, or that requests had to be cut.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	s.cut()
	if err != nil {
		cutCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutTimeout)
		defer cancel()
		if s.http.Shutdown(cutCtx) == nil {
			err = errors.New("requests in flight were cancelled")
		} else {
			err = errors.Join(errors.New("requests in flight were cut off"), s.http.Close())
		}
	}
	<-s.done
	return errors.Join(err, s.failure)
}

// ServeHTTP answers one request, of the listener or of this process.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	r = host.Identify(w, r)
	if !s.ready.Load() {
		w.Header().Set("Retry-After", "1")
		s.refuse(w, r, http.StatusServiceUnavailable, codeStarting, "the server is starting")
		return
	}
	if r.Method == http.MethodOptions && r.RequestURI == "*" {
		s.plain(w, r, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "0") })
		return
	}
	h, pattern := s.mux.Handler(r)
	if pattern == "" {
		s.unrouted(w, r, h)
		return
	}
	if _, ok := h.(routed); !ok { // it sends the client to another spelling of the path
		s.plain(w, r, h.ServeHTTP)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// plain answers what concerns no route and is no refusal.
func (s *Server) plain(w http.ResponseWriter, r *http.Request, answer http.HandlerFunc) {
	start, out := time.Now(), &counted{ResponseWriter: w}
	linger.Hurry(w)
	answer(out, r)
	s.line(r, "", hclog.Info, start, out)
	s.linger.End(w, r)
}

// line ends a request that no entry answered: its one line of log, without the path,
// which is the caller's.
func (s *Server) line(r *http.Request, route string, level hclog.Level, start time.Time, out *counted) {
	s.log.Log(level, "request", "method", shown(r.Method), "route", route, "status", out.answered(),
		"ms", time.Since(start).Milliseconds(), "bytes", out.bytes, "request", host.RequestID(r.Context()))
}

// shown is a method as it may stand in a sentence and in the log: HTTP bounds its
// letters and not its length.
func shown(method string) string {
	const most = 32
	if len(method) > most {
		return method[:most] + "…"
	}
	return method
}

// unrouted answers what no route took. h is what the mux would have answered:
// it alone knows whether the path exists for other methods, and for which.
//
// A method that no route has at any path is another matter (RFC 9110 §15.6.2).
// Besides, an entry may register methods only to refuse them with an Allow of its
// own, so that the mux's list would promise what the path does not take.
func (s *Server) unrouted(w http.ResponseWriter, r *http.Request, h http.Handler) {
	rec := statusRecorder{header: make(http.Header)}
	h.ServeHTTP(&rec, r)
	switch {
	case rec.status != http.StatusMethodNotAllowed:
		s.refuse(w, r, http.StatusNotFound, "not_found", "there is nothing at this path")
	case !s.methods[r.Method]:
		s.refuse(w, r, http.StatusNotImplemented, "not_implemented", "this server does not know the method "+shown(r.Method))
	default:
		w.Header().Set("Allow", rec.header.Get("Allow"))
		s.refuse(w, r, rec.status, "method_not_allowed", "this path does not take "+shown(r.Method))
	}
}

const codeStarting = "starting"

// refuse answers what no entry does, in the error shape of docs/wire.md: a sentence for
// people, twice since clients differ in where they look, and a code for programs.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	level := hclog.Info
	if code == codeStarting {
		level = hclog.Debug // whoever waits for the start asks often
	}
	body, err := json.Marshal(struct {
		Error     string `json:"error"`
		Message   string `json:"message"`
		Status    int    `json:"status"`
		Code      string `json:"code"`
		RequestID string `json:"request_id"`
	}{message, message, status, code, host.RequestID(r.Context())})
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{}`)
	}
	body = append(body, '\n')
	start, out := time.Now(), &counted{ResponseWriter: w}
	out.Header().Set("Content-Type", "application/json")
	out.Header().Set("Content-Length", strconv.Itoa(len(body)))
	linger.Hurry(w)
	out.WriteHeader(status)
	_, _ = out.Write(body) // the client is gone when this fails
	s.line(r, "", level, start, out)
	s.linger.End(w, r)
}

// counted remembers what was answered.
type counted struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *counted) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *counted) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// answered is the status: what nobody sets is 200.
func (w *counted) answered() int { return cmp.Or(w.status, http.StatusOK) }

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *counted) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// statusRecorder keeps the head of an answer and drops its body.
type statusRecorder struct {
	header http.Header
	status int
}

func (r *statusRecorder) Header() http.Header         { return r.header }
func (r *statusRecorder) Write(p []byte) (int, error) { return len(p), nil }
func (r *statusRecorder) WriteHeader(status int)      { r.status = status }
