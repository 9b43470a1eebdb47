package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/linger"
	"github.com/caisson-run/caisson/plugins/exec/internal/bodies"
	"github.com/caisson-run/caisson/plugins/exec/internal/response"
	"github.com/caisson-run/caisson/sdk/client"
	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Server answers the protocol over HTTP. It is safe for concurrent use.
type Server struct {
	o      Options
	owners *owners
	// stateful serves clients that begin a session, stateless those of the protocol
	// from stateless on, whose requests stand alone.
	stateful, stateless http.Handler
	bodies              *bodies.Budget
	log                 hclog.Logger
	running             sync.WaitGroup // handlers that tools wait for

	// life ends when calls may not go on any longer, open when nothing is let in any
	// more and nobody may go on listening.
	life, open context.Context
	kill, shut context.CancelFunc
	lingering  *linger.Closer

	mu    sync.Mutex
	calls map[string]*http.Request // requests under way, by callHeader
}

// callHeader tells a tool which request brought its call. What a caller sends under this
// name is thrown away.
const callHeader = "Caisson-Mcp-Call"

// statelessFrom is the first version of the protocol without sessions.
const statelessFrom = "2026-07-28"

// New returns a Server. It starts nothing.
func New(o Options) (*Server, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, calls: make(map[string]*http.Request), log: hclog.NewNullLogger(), lingering: linger.New()}
	s.bodies = bodies.New(o.BodyMemoryBytes, o.BodyMemoryBytes/2, weight*bodies.Factor*o.BodyBytes)
	s.life, s.kill = context.WithCancel(context.Background())
	s.open, s.shut = context.WithCancel(context.Background())
	t := &tools{caller: s.caller, output: o.OutputBytes, fault: func(tool string, err error) {
		s.log.Error("a tool failed", "tool", tool, "error", err)
	}}
	schemas := sdk.NewSchemaCache()
	s.owners = newOwners(o, func(sessionID func() string) *sdk.Server { return newServer(t, o.Version, schemas, sessionID) })
	server := func(r *http.Request) *sdk.Server {
		own, _ := r.Context().Value(ownedKey{}).(*owned)
		if own == nil {
			return nil
		}
		return own.server
	}
	common := sdk.StreamableHTTPOptions{
		DisableLocalhostProtection: true, // guard looks at more
		MaxRequestBodyBytes:        o.BodyBytes,
		SessionTimeout:             o.Idle,
	}
	s.stateful = sdk.NewStreamableHTTPHandler(server, &common)
	alone := common
	alone.Stateless, alone.PropagateRequestCancellation, alone.SessionTimeout = true, true, 0
	s.stateless = sdk.NewStreamableHTTPHandler(server, &alone)
	return s, nil
}

type ownedKey struct{}

// Entry returns the routes. Mount it on the router whose routes Options.Handler answers.
// It consumes nothing itself: what tools ask for is metered where it is answered.
func (s *Server) Entry() host.Entry {
	return host.Entry{Name: "mcp", Price: host.NoCharge, Mount: func(_ context.Context, m *host.Mounting) error {
		s.log = m.Log
		s.Mount(m)
		return nil
	}}
}

// Mounting is what Mount needs of a *host.Mounting.
type Mounting interface {
	Prefixes(prefixes ...string)
	Handle(pattern string, h http.Handler, refuse func(http.ResponseWriter, *http.Request, *host.HTTPError))
	Intercept(f func(http.ResponseWriter, *http.Request) bool)
	OnClose(f func(context.Context) error)
}

var _ Mounting = (*host.Mounting)(nil)

// Mount registers the routes, once: what Entry does for a host.
func (s *Server) Mount(m Mounting) {
	m.Prefixes(Path)
	m.Intercept(s.guard)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		for _, path := range []string{Path, Path + "/{$}"} {
			m.Handle(method+" "+path, http.HandlerFunc(s.serve), s.turnedAway)
		}
	}
	m.OnClose(s.close)
}

// close ends every session, lets nothing in any more and waits for what tools wait for.
func (s *Server) close(ctx context.Context) error {
	s.Drain()
	defer s.kill()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.owners.close() // waits for calls
		s.running.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.kill()
	select {
	case <-done:
		return nil
	case <-time.After(stopGrace):
		return errors.New("mcp: tool calls did not stop in time")
	}
}

// stopGrace is how long a stopped call may take to end.
const stopGrace = 10 * time.Second

// Drain lets nothing in any more and ends what clients only listen to; calls go on. A
// server that waits for its requests to end calls it first, since listening has none.
func (s *Server) Drain() { s.shut() }

// serve answers a request that was let in.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.measured(w, r, s.answer)
}

// turnedAway answers a request that was not.
func (s *Server) turnedAway(w http.ResponseWriter, r *http.Request, e *host.HTTPError) {
	s.measured(w, r, func(w http.ResponseWriter, r *http.Request) { s.refuse(w, r, e) })
}

// statusGone is what the log says of a caller that went away (docs/observability.md).
const statusGone = 499

// measured ends an answer with a line of log, without bodies and keys, and counts it.
func (s *Server) measured(w http.ResponseWriter, r *http.Request, answer func(http.ResponseWriter, *http.Request)) {
	start, out, gone := time.Now(), response.New(w, s.o.Stall), false
	s.o.Telemetry.RequestBegan()
	defer func() { // of an answer that breaks off, too
		took, status := time.Since(start), out.Status()
		if gone || out.Err() != nil {
			status = statusGone
		}
		s.o.Telemetry.RequestEnded(Path, r.Method, status, took)
		args := []any{
			"method", r.Method, "route", Path, "status", status, "ms", took.Milliseconds(), "bytes", out.Bytes(),
			"request", host.RequestID(r.Context()),
		}
		if p, ok := host.PrincipalFrom(r.Context()); ok {
			args = append(args, "org", p.Org, "via", p.Via)
		}
		if err := out.Err(); err != nil {
			args = append(args, "error", err)
		}
		s.log.Info("request", args...)
	}()
	answer(out, r)
	// A stream that is only listened to ends like this, and a body that does not come in
	// time ends the context too.
	gone = r.Context().Err() != nil && r.Method != http.MethodGet && out.Status() != http.StatusRequestTimeout
	out.End()
	if out.Status() >= http.StatusBadRequest {
		s.lingering.End(out, r)
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	p, ok := host.PrincipalFrom(r.Context())
	if !ok || p.Org == "" {
		panic("mcp: a guarded route ran without a principal")
	}
	who := ownerOf(p)
	if s.open.Err() != nil {
		s.refuse(w, r, refusal(http.StatusServiceUnavailable, "stopping", "the server is stopping"))
		return
	}
	id := r.Header.Get(sessionHeader)
	if values := r.Header.Values(sessionHeader); len(values) > 1 || len(values) == 1 && !s.owners.owns(who, id) {
		s.refuse(w, r, unknown())
		return
	}
	own, leave, err := s.owners.enter(who, r.Method == http.MethodGet, id)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	defer leave()
	if r.Method == http.MethodPost {
		share := s.bodies.Open(p.Org)
		defer share.Close()
		body, err := s.read(w, r, share)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		body = bytes.TrimSpace(body)
		var wrong []byte
		if json.Valid(body) { // the SDK takes what begins with a message for one
			wrong = wrongID(body)
		} else {
			wrong = complaint(jsonrpc.CodeParseError, "the body is not valid JSON", nil)
		}
		if wrong != nil {
			response.Encoded(w, http.StatusBadRequest, append(wrong, '\n'))
			return
		}
	}
	call := rand.Text()
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), ownedKey{}, own))
	defer cancel()
	if r.Method == http.MethodGet {
		defer context.AfterFunc(s.open, cancel)()
	}
	in := r.WithContext(ctx)
	in.Header = r.Header.Clone()
	in.Header.Set(callHeader, call)
	s.mu.Lock()
	s.calls[call] = r
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.calls, call)
	}()
	switch {
	case r.Header.Get("Mcp-Protocol-Version") >= statelessFrom:
		s.stateless.ServeHTTP(w, in)
	case r.Method == http.MethodPost && id == "":
		s.begin(w, in, own)
	default:
		s.stateful.ServeHTTP(w, in)
	}
}

const sessionHeader = "Mcp-Session-Id"

// begin answers a request that may make a session.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, own *owned) {
	if !s.owners.begin(own, func() { s.stateful.ServeHTTP(w, r) }) {
		s.refuse(w, r, busy("too many sessions, and none of yours is unused"))
	}
}

// caller implements tools.caller: calls act with the headers of the request that brought
// them, and end with it, since nobody could be told of their result.
func (s *Server) caller(ctx context.Context, x *sdk.RequestExtra) (*client.Client, context.Context, context.CancelFunc, error) {
	var outer *http.Request
	if x != nil {
		s.mu.Lock()
		outer = s.calls[x.Header.Get(callHeader)]
		s.mu.Unlock()
	}
	if outer == nil {
		return nil, nil, nil, context.Canceled
	}
	c, err := client.New(client.Options{
		URL:  "http://in-process" + s.o.Base,
		HTTP: &http.Client{Transport: inProcess{handler: s.o.Handler, outer: outer, running: &s.running}},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	hangUp, close := context.AfterFunc(outer.Context(), cancel), context.AfterFunc(s.life, cancel)
	return c, ctx, func() { hangUp(); close(); cancel() }, nil
}

func refusal(status int, code, message string) *host.HTTPError {
	return &host.HTTPError{Status: status, Code: code, Message: message}
}

func unknown() *host.HTTPError {
	return refusal(http.StatusNotFound, "not_found", "session not found")
}

func busy(message string) *host.HTTPError {
	return &host.HTTPError{Status: http.StatusTooManyRequests, Code: response.CodeRateLimited, Message: message, RetryAfter: retryAfter}
}

// retryAfter is when asking again makes sense, not when there is room: that is when a
// request or a stream of the caller's own ends, which nobody knows before.
const retryAfter = time.Second

// refuse answers with a refusal, and says why in the log.
func (s *Server) refuse(w http.ResponseWriter, _ *http.Request, e *host.HTTPError) {
	linger.Hurry(w)
	response.Refuse(w, e)
	if e.Cause != nil {
		s.log.Debug("refused", "status", e.Status, "code", e.Code, "error", e.Cause)
	}
}
