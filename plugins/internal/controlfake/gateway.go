package controlfake

import (
	"context"
	"net"
	"net/http"
	"regexp"
)

// Gateway leads to sandboxes by host, PORT-ID.DOMAIN, or by E2B's headers where the
// host says nothing. What happens to a sandbox cuts what is under way in it.
func (s *Server) Gateway() http.Handler {
	return s.GatewayScript.Wrap(http.HandlerFunc(s.route))
}

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	live, ready := s.arrive(destination(r))
	if !ready {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html><head><title>502 Bad Gateway</title></head></html>"))
		return
	}
	if live == nil {
		s.gateway.ServeHTTP(w, r) // it answers for what does not run
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(live, cancel)()
	s.gateway.ServeHTTP(w, r.WithContext(ctx))
	if live.Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

var hostForm = regexp.MustCompile(`^\d+-([^.]+)\.`)

// destination is the sandbox that a request is for.
func destination(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if m := hostForm.FindStringSubmatch(host); m != nil {
		return m[1]
	}
	return r.Header.Get("E2b-Sandbox-Id")
}

// arrive does to a sandbox what traffic does, and returns what ends when the sandbox
// stops running; nil when it does not run.
func (s *Server) arrive(id string) (live context.Context, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	b := s.boxes[id]
	if b == nil {
		return nil, true
	}
	if b.state == "paused" && b.autoWake {
		s.wake(b)
		s.extend(b, int64(b.ttl.Seconds()), true)
	}
	if b.state != "running" {
		return nil, true
	}
	if s.o.Provider == Cube && !b.never {
		b.end = s.now().Add(b.ttl) // any request counts as activity
	}
	if b.notReady > 0 {
		b.notReady--
		return b.live, false
	}
	return b.live, true
}
