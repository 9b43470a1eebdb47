package controlfake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Request is one that arrived.
type Request struct {
	Method, Path, Query string
	Header              http.Header
	Body                string
}

// Requests returns those that arrived at the control plane and forgets them.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.requests
	s.requests = nil
	return list
}

// Fault is a scripted misbehaviour of the control plane.
type Fault struct {
	// Method and Path choose requests; Path is a regular expression over all of it.
	Method, Path string
	// Times is how often; 0 is once.
	Times int
	// After carries the request out before it fails: the reply is lost.
	After bool
	// Status, Header and Body are the reply. Status 0 cuts the connection.
	Status int
	Header map[string]string
	Body   string
	// Slow waits before the reply, until the caller gives up at the latest.
	Slow time.Duration

	expr *regexp.Regexp
}

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	f.expr = regexp.MustCompile("^(?:" + f.Path + ")$")
	if f.Times == 0 {
		f.Times = 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal drops all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// due returns the fault for a request.
func (s *Server) due(r *http.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Times > 0 && (f.Method == "" || f.Method == r.Method) && f.expr.MatchString(r.URL.EscapedPath()) {
			f.Times--
			return f
		}
	}
	return nil
}

// apply makes the faulty reply.
func (f *Fault) apply(w http.ResponseWriter, r *http.Request) {
	if f.Slow > 0 {
		t := time.NewTimer(f.Slow)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			return
		}
	}
	if f.Status == 0 {
		panic(http.ErrAbortHandler)
	}
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

// discard takes a reply that will be lost.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.requests = append(s.requests, Request{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Clone(), string(body)})
	s.tick()
	s.mu.Unlock()
	if f := s.due(r); f != nil {
		if f.After {
			s.mux.ServeHTTP(discard{http.Header{}}, r)
		}
		f.apply(w, r)
		return
	}
	if len(body) > 0 {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			s.violation("%s %s has content type %q", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
			s.refuse(w, http.StatusUnsupportedMediaType, "unsupported content type")
			return
		}
	}
	for _, name := range []string{"X-Access-Token", "E2b-Traffic-Access-Token", "Cube-Traffic-Access-Token"} {
		if r.Header.Get(name) != "" {
			s.violation("%s %s carries %s, which is the data plane's", r.Method, r.URL.Path, name)
		}
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) violation(format string, args ...any) { s.o.Violation(fmt.Sprintf(format, args...)) }

// refuse is the error body of both control planes.
func (s *Server) refuse(w http.ResponseWriter, status int, format string, args ...any) {
	reply(w, status, map[string]any{"code": status, "message": fmt.Sprintf(format, args...)})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

// noRoute answers for a route that does not exist, as each provider does.
func (s *Server) noRoute(w http.ResponseWriter) {
	if s.o.Provider == Cube {
		w.WriteHeader(http.StatusNotFound) // axum: empty
		return
	}
	s.refuse(w, http.StatusNotFound, "validation error: no matching operation was found")
}

// decode reads a body strictly. What is wrong with it is refused as the provider does.
func (s *Server) decode(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		s.violation("%s %s: body: %v", r.Method, r.URL.Path, err)
		if s.o.Provider == Cube {
			http.Error(w, "Failed to deserialize the JSON body into the target type", http.StatusUnprocessableEntity)
		} else {
			s.refuse(w, http.StatusBadRequest, "validation error: request body has an error: %v", err)
		}
		return false
	}
	return true
}

// keyed lets those through who have the key.
func (s *Server) keyed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := r.Header.Get("X-Api-Key")
		if s.o.Provider == Cube {
			if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
				given = bearer
			}
		}
		if s.o.APIKey != "" && given != s.o.APIKey {
			s.refuse(w, http.StatusUnauthorized, "invalid API key")
			return
		}
		next(w, r)
	}
}
