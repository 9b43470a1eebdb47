package controlfake

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envdfake"
)

// createBody is every member that either provider knows.
type createBody struct {
	TemplateID string `json:"templateID"`
	Timeout    *int64 `json:"timeout"`
	AutoPause  bool   `json:"autoPause"`
	AutoPauseM *bool  `json:"autoPauseMemory"`
	AutoResume any    `json:"autoResume"`
	Lifecycle  *struct {
		OnTimeout  string `json:"onTimeout"`
		AutoResume bool   `json:"autoResume"`
	} `json:"lifecycle"`
	Secure       *bool             `json:"secure"`
	Internet     *bool             `json:"allow_internet_access"`
	Network      map[string]any    `json:"network"`
	Metadata     map[string]string `json:"metadata"`
	EnvVars      map[string]string `json:"envVars"`
	VolumeMounts []any             `json:"volumeMounts"`
	MCP          any               `json:"mcp"`
}

var safeMeta = regexp.MustCompile(`^[A-Za-z0-9_.-]*$`)

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	if s.hidden(w, r) {
		return
	}
	var c createBody
	if !s.decode(w, r, &c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	second := strings.HasPrefix(r.URL.Path, "/v2")
	secure := s.o.Provider == Cube || second || c.Secure != nil && *c.Secure
	seconds := int64(15)
	if second {
		seconds = 300
	}
	if s.o.Provider == Cube {
		seconds = -1
	}
	if c.Timeout != nil {
		seconds = *c.Timeout
	}
	public, ok := true, true
	if v, given := c.Network["allowPublicTraffic"]; given {
		public, ok = v.(bool)
	}
	tpl, image := s.findTemplate(c.TemplateID)
	switch {
	case c.TemplateID == "" || !ok:
		s.violation("create without a template, or with a network that is none")
		s.refuse(w, http.StatusBadRequest, "validation error: templateID is required")
		return
	case seconds <= 0 && (s.o.Provider == E2B || seconds != -1):
		s.refuse(w, http.StatusBadRequest, "timeout must be greater than 0")
		return
	case s.quirks.MaxTimeout > 0 && seconds > s.quirks.MaxTimeout:
		s.refuse(w, http.StatusBadRequest, "Timeout cannot be greater than %d hours", s.quirks.MaxTimeout/3600)
		return
	case !public && !secure:
		s.refuse(w, http.StatusBadRequest, "allowPublicTraffic false needs secure")
		return
	case tpl == "":
		s.refuse(w, http.StatusNotFound, "template '%s' not found", c.TemplateID)
		return
	case image != nil && len(c.EnvVars) > 0:
		s.refuse(w, http.StatusBadRequest, "creating from a snapshot does not allow envVars or function config overrides")
		return
	}
	if err := s.checkNetwork(c); err != nil {
		s.refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	for k, v := range c.Metadata {
		// Cube gives some keys a meaning, and its versions decode filters differently.
		if s.o.Provider == Cube && (strings.Contains(k, "mount") || !safeMeta.MatchString(k) || !safeMeta.MatchString(v)) {
			s.violation("metadata %q: %q", k, v)
		}
	}
	b := &box{
		id: s.newID("i"), template: tpl, state: "running", started: s.now(), ttl: time.Duration(seconds) * time.Second,
		pauseOnEnd: c.AutoPause, public: public, metadata: maps.Clone(c.Metadata), notReady: s.quirks.NotReady,
		egress: map[string]any{"allow_internet_access": c.Internet, "network": c.Network},
	}
	if c.Internet != nil {
		b.egress["allow_internet_access"] = *c.Internet
	}
	if m, ok := c.AutoResume.(map[string]any); ok {
		b.autoWake, _ = m["enabled"].(bool)
	}
	if c.Lifecycle != nil {
		b.pauseOnEnd, b.autoWake = c.Lifecycle.OnTimeout == "pause", c.Lifecycle.AutoResume
	}
	if b.metadata == nil {
		b.metadata = map[string]string{}
	}
	b.never = seconds < 0
	b.end = b.started.Add(b.ttl)
	if s.o.Provider == E2B && secure && !s.quirks.NoToken {
		b.access = newToken("envd")
	}
	if !public {
		b.traffic = newToken("traffic")
	}
	b.live, b.cut = context.WithCancel(context.Background())
	env := c.EnvVars
	if s.quirks.DropEnv {
		env = nil
	}
	machine, err := s.machine(b.id, envdfake.Options{Token: b.access, Env: env}, image)
	if err != nil {
		b.cut()
		s.violation("no machine: %v", err)
		s.refuse(w, http.StatusInternalServerError, "could not start")
		return
	}
	b.machine = machine
	s.boxes[b.id] = b
	s.gateway.Add(b.id, machine, b.traffic)
	reply(w, http.StatusCreated, s.brief(b, true))
}

// checkNetwork keeps to the rules of both providers.
func (s *Server) checkNetwork(c createBody) error {
	known := []string{"allowPublicTraffic", "allowOut", "denyOut", "maskRequestHost", "egressProxy", "rules"}
	for k := range c.Network {
		if !slices.Contains(known, k) {
			s.violation("network has a member %q", k)
		}
	}
	allow, _ := c.Network["allowOut"].([]any)
	deny, _ := c.Network["denyOut"].([]any)
	all := slices.Contains(deny, any("0.0.0.0/0"))
	for _, a := range allow {
		if name, ok := a.(string); ok && strings.ContainsAny(name, "ghijklmnopqrstuvwxyz") && !all {
			return fmt.Errorf("domains in allowOut need ALL_TRAFFIC in denyOut")
		}
	}
	for _, d := range deny {
		if name, ok := d.(string); ok && strings.ContainsAny(name, "ghijklmnopqrstuvwxyz") {
			return fmt.Errorf("denyOut takes addresses only")
		}
	}
	return nil
}

// hidden answers for routes that a version of the server lacks.
func (s *Server) hidden(w http.ResponseWriter, r *http.Request) bool {
	s.mu.Lock()
	second := strings.HasPrefix(r.URL.Path, "/v2/")
	hide := second && s.quirks.NoV2 || !second && s.quirks.NoV1 || second && s.o.Provider == Cube
	s.mu.Unlock()
	if hide {
		s.noRoute(w)
	}
	return hide
}

// brief is the reply to creating and connecting.
func (s *Server) brief(b *box, fresh bool) map[string]any {
	out := map[string]any{
		"sandboxID": b.id, "templateID": b.template, "clientID": "c", "envdVersion": "0.6.13", "domain": nil,
		"envdAccessToken": nil, "trafficAccessToken": nil,
	}
	if s.o.Provider == Cube {
		out["envdVersion"] = "0.2.0"
	}
	tokens := fresh || s.o.Provider == E2B && !s.quirks.SparseConnect
	if tokens && b.access != "" {
		out["envdAccessToken"] = b.access
	}
	if tokens && b.traffic != "" {
		out["trafficAccessToken"] = b.traffic
	}
	return out
}

// detail is the reply to describing.
func (s *Server) detail(b *box) map[string]any {
	out := s.brief(b, false)
	delete(out, "trafficAccessToken")
	if b.access != "" {
		out["envdAccessToken"] = b.access
	}
	state := b.state
	if s.o.Provider == E2B && state == "pausing" {
		state = "paused"
	}
	end := b.end
	if b.state == "paused" {
		end = b.pausedAt
	}
	maps.Copy(out, map[string]any{
		"startedAt": b.started.UTC(), "metadata": b.metadata, "state": state, "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 1024,
		"lifecycle": map[string]any{"autoResume": b.autoWake, "onTimeout": map[bool]string{true: "pause", false: "kill"}[b.pauseOnEnd]},
	})
	if !b.never || s.o.Provider == E2B {
		out["endAt"] = end.UTC()
	}
	return out
}

// find returns the sandbox that a request names, or answers that there is none.
func (s *Server) find(w http.ResponseWriter, r *http.Request) *box {
	id := r.PathValue("id")
	if s.o.Provider == E2B && !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)?$`).MatchString(id) {
		s.refuse(w, http.StatusBadRequest, "Invalid sandbox ID")
		return nil
	}
	b := s.boxes[id]
	if b == nil {
		s.refuse(w, http.StatusNotFound, "sandbox \"%s\" doesn't exist or you don't have access to it", id)
	}
	return b
}

func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.find(w, r); b != nil {
		reply(w, http.StatusOK, s.detail(b))
	}
}

func (s *Server) remove(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(w, r)
	switch {
	case b == nil:
	case s.quirks.KeepPaused && b.state != "running":
		s.refuse(w, http.StatusInternalServerError, "cannot delete a sandbox that is %s", b.state)
	default:
		s.kill(b)
		w.WriteHeader(http.StatusNoContent)
	}
}

type timeoutBody struct {
	Timeout *int64 `json:"timeout"`
	Memory  *bool  `json:"memory"`
}

func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	if s.hidden(w, r) {
		return
	}
	var c timeoutBody
	if !s.decode(w, r, &c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(w, r)
	if b == nil {
		return
	}
	seconds := int64(300)
	if c.Timeout != nil {
		seconds = *c.Timeout
	} else if !strings.HasPrefix(r.URL.Path, "/v2/") && s.o.Provider == E2B {
		s.violation("connect without a timeout")
	}
	switch {
	case b.state == "pausing":
		s.refuse(w, http.StatusConflict, "sandbox is pausing")
		return
	case seconds < 0 && s.o.Provider == E2B, s.quirks.MaxTimeout > 0 && seconds > s.quirks.MaxTimeout:
		s.refuse(w, http.StatusBadRequest, "Max instance length exceeded")
		return
	}
	status := http.StatusOK
	if b.state == "paused" && s.o.Provider == E2B {
		status = http.StatusCreated
	}
	was := b.state
	s.wake(b)
	s.extend(b, seconds, was == "paused")
	out := s.brief(b, false)
	if s.quirks.Relapse > 0 {
		s.quirks.Relapse--
		s.park(b)
	}
	reply(w, status, out)
}

// extend moves a sandbox's end; unless exact, only away.
func (s *Server) extend(b *box, seconds int64, exact bool) {
	if b.never = seconds < 0; b.never {
		return
	}
	b.ttl = time.Duration(seconds) * time.Second
	if end := s.now().Add(b.ttl); exact || end.After(b.end) {
		b.end = end
	}
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request) {
	var c timeoutBody
	if !s.decode(w, r, &c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(w, r)
	switch {
	case b == nil:
	case b.state != "running":
		s.refuse(w, http.StatusConflict, "sandbox is already %s", b.state)
	default:
		s.park(b)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) timeout(w http.ResponseWriter, r *http.Request) {
	var c timeoutBody
	if !s.decode(w, r, &c) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(w, r)
	switch {
	case b == nil:
	case c.Timeout == nil || *c.Timeout < 0 && (s.o.Provider == E2B || *c.Timeout != -1):
		s.violation("timeout without seconds")
		s.refuse(w, http.StatusBadRequest, "timeout must not be negative")
	case b.state == "paused":
		s.refuse(w, http.StatusNotFound, "sandbox \"%s\" not found", b.id)
	case b.state != "running":
		s.refuse(w, http.StatusConflict, "sandbox is %s", b.state)
	default:
		seconds := *c.Timeout
		if s.quirks.MaxTimeout > 0 {
			seconds = min(seconds, s.quirks.MaxTimeout)
		}
		s.extend(b, seconds, true)
		w.WriteHeader(http.StatusNoContent)
	}
}
