package controlfake

import "net/http"

// routes sets up what the provider has. Everything else is a violation, but for
// routes that the other version of a server has.
func (s *Server) routes() {
	s.mux = http.NewServeMux()
	handle := func(pattern string, h http.HandlerFunc) { s.mux.HandleFunc(pattern, s.keyed(h)) }
	s.mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if s.o.Provider == Cube {
			reply(w, http.StatusOK, map[string]string{"status": "ok"})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	handle("POST /sandboxes", s.create)
	handle("POST /v2/sandboxes", s.create)
	handle("POST /sandboxes/{id}/connect", s.connect)
	handle("POST /v2/sandboxes/{id}/connect", s.connect)
	handle("GET /v2/sandboxes", s.list)
	handle("GET /sandboxes/{id}", s.get)
	handle("DELETE /sandboxes/{id}", s.remove)
	handle("POST /sandboxes/{id}/pause", s.pause)
	handle("POST /sandboxes/{id}/timeout", s.timeout)
	handle("POST /sandboxes/{id}/snapshots", s.takeSnapshot)
	handle("GET /snapshots", s.listSnapshots)
	handle("GET /templates", s.listTemplates)
	handle("GET /v2/templates", s.listTemplates)
	handle("GET /templates/{id}", s.getTemplate)
	handle("GET /templates/aliases/{name}", s.alias)
	handle("DELETE /templates/{id}", s.deleteTemplate)
	handle("GET /templates/{id}/builds/{build}/status", s.buildStatus)
	if s.o.Provider == E2B {
		handle("POST /v3/templates", s.newTemplate)
		handle("POST /v2/templates/{id}/builds/{build}", s.startBuild)
	} else {
		handle("POST /templates", s.cubeTemplate)
		handle("POST /templates/{id}", s.cubeTemplate)
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.violation("no route %s %s", r.Method, r.URL.EscapedPath())
		s.noRoute(w)
	})
}
