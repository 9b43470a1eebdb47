package envdfake

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Style is whose gateway one is: they differ in their answers.
type Style int

const (
	// E2B answers with JSON that has codes and messages, and asks for the traffic token
	// everywhere but at the daemon's port.
	E2B Style = iota
	// Cube answers with short JSON errors, and asks for the traffic token everywhere.
	Cube
)

// State is what a gateway knows of a machine.
type State int

const (
	// Running is reached.
	Running State = iota
	// Paused is not.
	Paused
	// Moving is on its way between the two.
	Moving
	// Killed was there.
	Killed
)

// Gateway is an http.Handler that leads to machines by the request's host,
// "PORT-ID.DOMAIN", or by the headers E2b-Sandbox-Id and -Port. What a fault of its
// Script says comes first.
type Gateway struct {
	style  Style
	domain string
	Script Script

	mu         sync.Mutex
	routes     map[string]*route
	violations []string
}

type route struct {
	machine *Machine
	token   string
	state   State
}

// NewGateway makes one for host names that end with ".domain"; Cube's does not look.
func NewGateway(style Style, domain string) *Gateway {
	return &Gateway{style: style, domain: domain, routes: make(map[string]*route)}
}

// Add leads to a machine. The traffic token is asked for unless it is empty.
func (g *Gateway) Add(id string, m *Machine, trafficToken string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.routes[id] = &route{machine: m, token: trafficToken}
}

// Set changes the state of a machine, Remove forgets it.
func (g *Gateway) Set(id string, s State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.routes[id]; r != nil {
		r.state = s
	}
}

// Remove forgets a machine.
func (g *Gateway) Remove(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.routes, id)
}

// Violations are what clients did that no client should, at the gateway itself.
func (g *Gateway) Violations() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.violations)
}

func (g *Gateway) violation(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.violations = append(g.violations, fmt.Sprintf(format, args...))
}

var hostForm = regexp.MustCompile(`^(\d+)-([^.]+)\.(.+)$`)

// target reads where a request wants to go.
func (g *Gateway) target(r *http.Request) (port int, id string, ok bool) {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if m := hostForm.FindStringSubmatch(host); m != nil && net.ParseIP(host) == nil {
		if g.style == E2B && m[3] != g.domain {
			g.violation("host %s is not below %s", r.Host, g.domain)
			return 0, "", false
		}
		port, err := strconv.Atoi(m[1])
		return port, m[2], err == nil && port > 0 && port < 65536
	}
	id = r.Header.Get("E2b-Sandbox-Id")
	port, err := strconv.Atoi(r.Header.Get("E2b-Sandbox-Port"))
	return port, id, err == nil && id != ""
}

var idForm = regexp.MustCompile(`^[a-z0-9]+$`)

func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.Script.Wrap(http.HandlerFunc(g.serve)).ServeHTTP(w, r)
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	for _, h := range []string{"X-Api-Key", "Proxy-Authorization"} {
		if r.Header.Get(h) != "" {
			g.violation("%s %s carries %s, which is of the control plane", r.Method, r.URL.Path, h)
		}
	}
	if ua := strings.ToLower(r.UserAgent()); g.style == E2B && slices.ContainsFunc([]string{"mozilla", "chrome", "safari"}, func(s string) bool { return strings.Contains(ua, s) }) {
		g.violation("the user agent %q gets pages", r.UserAgent())
	}
	port, id, ok := g.target(r)
	if !ok {
		http.Error(w, "Invalid host", http.StatusBadRequest)
		return
	}
	if g.style == E2B && !idForm.MatchString(id) {
		http.Error(w, "Invalid sandbox ID", http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	at := g.routes[id]
	if at == nil {
		at = &route{state: Killed}
		if g.style == E2B {
			at.state = Paused
		}
	}
	to := *at
	g.mu.Unlock()
	if g.style == Cube {
		g.cube(w, r, to, port)
		return
	}
	g.e2b(w, r, to, id, port)
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (g *Gateway) e2b(w http.ResponseWriter, r *http.Request, to route, id string, port int) {
	switch {
	case to.state == Moving:
		answer(w, http.StatusConflict, map[string]any{"sandboxId": id, "message": "The sandbox is still transitioning", "code": 409})
		return
	case to.state != Running:
		answer(w, http.StatusBadGateway, map[string]any{"sandboxId": id, "message": "The sandbox was not found", "code": 502})
		return
	case port != Port && to.token != "" && r.Header.Get("E2b-Traffic-Access-Token") != to.token:
		answer(w, http.StatusForbidden, map[string]any{"sandboxId": id, "message": "Missing or invalid traffic access token", "code": 403})
		return
	case port == Port && (r.URL.Path == "/init" || strings.HasPrefix(r.URL.Path, "/freeze")):
		answer(w, http.StatusNotFound, map[string]any{"message": "not found", "path": r.URL.Path, "code": 404})
		return
	}
	h := to.machine.port(port)
	if h == nil {
		answer(w, http.StatusBadGateway, map[string]any{
			"sandboxId": id, "message": "The sandbox is running but port is not open", "port": port, "code": 502,
		})
		return
	}
	h.ServeHTTP(w, r)
}

func (g *Gateway) cube(w http.ResponseWriter, r *http.Request, to route, port int) {
	token := r.Header.Get("E2b-Traffic-Access-Token")
	if token == "" {
		token = r.Header.Get("Cube-Traffic-Access-Token")
	}
	switch {
	case to.machine == nil:
		answer(w, http.StatusNotFound, map[string]any{"error": "not found"})
		return
	case to.state == Killed:
		answer(w, http.StatusGone, map[string]any{"error": "gone"})
		return
	case to.token != "" && token != to.token:
		answer(w, http.StatusForbidden, map[string]any{"error": "forbidden"})
		return
	case to.state == Moving:
		w.Header().Set("Retry-After", "2")
		answer(w, http.StatusServiceUnavailable, map[string]any{"error": "service unavailable"})
		return
	case to.state == Paused:
		answer(w, http.StatusNotFound, map[string]any{"error": "not found"})
		return
	}
	h := to.machine.port(port)
	if h == nil {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html><head><title>502 Bad Gateway</title></head></html>\n"))
		return
	}
	h.ServeHTTP(w, r)
}
