package admin

import (
	"net/http"

	"github.com/caisson-run/caisson/host/telemetry"
)

// Events are the newest that happened to plugins, oldest first.
type Events struct {
	Events []telemetry.Event `json:"events"`
}

func telemetryRoutes(mux *http.ServeMux, t *telemetry.Telemetry) {
	mux.Handle("GET /metrics", t.Handler())
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		n, ok := asked(w, r)
		if !ok {
			return
		}
		out := Events{Events: t.Events(n)}
		if out.Events == nil {
			out.Events = []telemetry.Event{}
		}
		reply(w, http.StatusOK, out)
	})
}
