package controlfake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
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
	s.Script.Wrap(http.HandlerFunc(s.answer)).ServeHTTP(w, r)
}

// answer does what is asked and then says so: an answer that a fault holds back must
// not hold what others need.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	b := &buffered{header: w.Header(), status: http.StatusOK}
	s.mux.ServeHTTP(b, r)
	w.WriteHeader(b.status)
	_, _ = w.Write(b.body.Bytes())
}

// buffered keeps an answer.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffered) Header() http.Header         { return b.header }
func (b *buffered) WriteHeader(status int)      { b.status = status }
func (b *buffered) Write(p []byte) (int, error) { return b.body.Write(p) }

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
		if s.o.APIKey != "" && given == "" {
			s.violation("%s %s without a key", r.Method, r.URL.Path)
		}
		if s.o.APIKey != "" && given != s.o.APIKey {
			s.refuse(w, http.StatusUnauthorized, "invalid API key")
			return
		}
		next(w, r)
	}
}
