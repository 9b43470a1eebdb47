package controlfake

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// daemonPort is the daemon's.
const daemonPort = 49983

// address is how a gateway reads a host.
var address = regexp.MustCompile(`^(\d+)-([^.]+)\.(.+)$`)

// browsers get pages instead of errors, so that clients must not look like one.
var browser = regexp.MustCompile(`(?i)mozilla|chrome|safari|firefox|edge|opera|msie`)

// Gateway routes requests by host, PORT-ID.DOMAIN, or by E2B's headers where the host
// says nothing. Ports other than the daemon's are those of this machine.
func (s *Server) Gateway() http.Handler { return http.HandlerFunc(s.route) }

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	id, port, ok := s.destination(r)
	if !ok {
		s.violation("the gateway cannot route host %q", r.Host)
		http.Error(w, "Invalid host", http.StatusBadRequest)
		return
	}
	if r.Header.Get("X-Api-Key") != "" || strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		s.violation("%s %s carries the control plane's key", r.Method, r.URL.Path)
	}
	if browser.MatchString(r.UserAgent()) {
		s.violation("user agent %q gets pages", r.UserAgent())
	}
	daemon, live := s.admit(w, r, id, port)
	if daemon == nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	stop := context.AfterFunc(live, cancel) // pausing and killing cut what is under way
	defer stop()
	r = r.WithContext(ctx)
	if port == daemonPort {
		if r.URL.Path == "/init" || strings.HasPrefix(r.URL.Path, "/freeze") {
			reply(w, http.StatusNotFound, map[string]any{"message": "not found", "path": r.URL.Path, "code": 404})
			return
		}
		daemon.ServeHTTP(w, r)
		if live.Err() != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))})
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { s.closedPort(w, id, port) }
	proxy.ServeHTTP(w, r)
}

// destination reads where a request is to go.
func (s *Server) destination(r *http.Request) (id string, port int, ok bool) {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if m := address.FindStringSubmatch(host); m != nil && (s.o.Provider == Cube || s.o.Domain == "" || m[3] == s.o.Domain) {
		port, err := strconv.Atoi(m[1])
		return m[2], port, err == nil && port > 0 && port < 65536
	}
	if s.o.Provider == E2B && r.Header.Get("E2b-Sandbox-Id") != "" {
		port, err := strconv.Atoi(r.Header.Get("E2b-Sandbox-Port"))
		return r.Header.Get("E2b-Sandbox-Id"), port, err == nil && port > 0 && port < 65536
	}
	return "", 0, false
}

// admit returns the daemon of a running sandbox, or answers.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, id string, port int) (Daemon, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tick()
	b := s.boxes[id]
	if b != nil && b.state == "paused" && b.autoWake {
		s.wake(b)
		s.extend(b, int64(b.ttl.Seconds()), true)
	}
	if b == nil || b.state != "running" {
		s.unroutable(w, id, b)
		return nil, nil
	}
	if b.traffic != "" && (s.o.Provider == Cube || port != daemonPort) {
		given := r.Header.Get("E2b-Traffic-Access-Token")
		if s.o.Provider == Cube && given == "" {
			given = r.Header.Get("Cube-Traffic-Access-Token")
		}
		if subtle.ConstantTimeCompare([]byte(given), []byte(b.traffic)) != 1 {
			if s.o.Provider == Cube {
				reply(w, http.StatusForbidden, map[string]string{"error": "forbidden"})
			} else {
				reply(w, http.StatusForbidden, map[string]any{"sandboxId": id, "message": "traffic access token is missing or invalid", "code": 403})
			}
			return nil, nil
		}
	}
	if s.o.Provider == Cube && !b.never {
		b.end = s.now().Add(b.ttl) // any request counts as activity
	}
	if port == daemonPort && b.notReady > 0 {
		b.notReady--
		s.closedPort(w, id, port)
		return nil, nil
	}
	return b.daemon, b.live
}

// unroutable answers for a sandbox that does not run, as each gateway does.
func (s *Server) unroutable(w http.ResponseWriter, id string, b *box) {
	if s.o.Provider == E2B {
		if b != nil && b.state == "pausing" {
			reply(w, http.StatusConflict, map[string]any{"sandboxId": id, "message": "the sandbox is still transitioning", "code": 409})
			return
		}
		reply(w, http.StatusBadGateway, map[string]any{"sandboxId": id, "message": "The sandbox was not found", "code": 502})
		return
	}
	switch {
	case b != nil && b.state == "pausing":
		w.Header().Set("Retry-After", "2")
		reply(w, http.StatusServiceUnavailable, map[string]string{"error": "service unavailable"})
	case b == nil && s.ended[id]:
		reply(w, http.StatusGone, map[string]string{"error": "gone"})
	default:
		reply(w, http.StatusNotFound, map[string]string{"error": "not found"})
	}
}

func (s *Server) closedPort(w http.ResponseWriter, id string, port int) {
	if s.o.Provider == Cube {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = fmt.Fprint(w, "<html><head><title>502 Bad Gateway</title></head></html>")
		return
	}
	reply(w, http.StatusBadGateway, map[string]any{
		"sandboxId": id, "message": "The sandbox is running but port is not open", "port": port, "code": 502,
	})
}
