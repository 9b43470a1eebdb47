package exec

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/plugins/exec/internal/response"
)

// readiness remembers for a moment whether a run would succeed: the health route
// is open to everybody, and asking a backend is not free.
type readiness struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

const (
	readinessTTL     = time.Second
	readinessTimeout = 5 * time.Second
)

func (d *door) isReady(ctx context.Context) error {
	d.ready.mu.Lock()
	defer d.ready.mu.Unlock()
	if now := d.o.Now(); d.ready.until.Before(now) {
		// Not with the request's own end: the answer is everybody's.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readinessTimeout)
		defer cancel()
		d.ready.err, d.ready.until = d.admits(ctx), now
		if d.ready.err == nil {
			d.ready.err = d.host.Ready(ctx)
		}
		if d.ready.err == nil { // whoever waits for readiness hears of it at once
			d.ready.until = now.Add(readinessTTL)
		}
	}
	return d.ready.err
}

type health struct {
	Status string `json:"status"`
	// Reason is a class, never a cause: who asks is unknown.
	Reason string `json:"reason,omitempty"`
}

// unready is the class of what keeps runs from succeeding.
func unready(err error) string {
	if he, ok := errors.AsType[*host.HTTPError](err); ok && he.Code == codeNotConfigured {
		return codeNotConfigured
	}
	if isBackend(err) {
		return codeSandboxDown
	}
	return "not_ready"
}

// healthy answers GET /health: 200 once a run would succeed, whoever asked.
func (d *door) healthy(w http.ResponseWriter, r *http.Request) error {
	reason := ""
	if d.life.Err() != nil || d.queue.Closed() {
		reason = "stopping"
	} else if err := d.isReady(r.Context()); err != nil {
		annotate(r.Context(), "cause", err)
		reason = unready(err)
	}
	if reason != "" {
		w.Header().Set("Retry-After", "5")
		response.JSON(w, http.StatusServiceUnavailable, health{Status: "unavailable", Reason: reason})
		return nil
	}
	response.JSON(w, http.StatusOK, health{Status: "ok"})
	return nil
}

// offered is one language as GET /languages lists it.
type offered struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Aliases    []string `json:"aliases,omitempty"`
	Advertised bool     `json:"advertised"`
	Available  bool     `json:"available"`
	Toolchain  string   `json:"toolchain,omitempty"`
	Version    string   `json:"version,omitempty"`
}

type languagesReply struct {
	Languages []offered `json:"languages"`
}

// languages answers GET /languages: what a new session can run.
func (d *door) languages(w http.ResponseWriter, r *http.Request) error {
	t, err := d.host.Sessions().Default(r.Context(), ownerOf(principal(r)))
	if err != nil {
		return err
	}
	defer t.Release()
	offers := d.host.Offers(t)
	out := make([]offered, len(offers))
	for k, o := range offers {
		out[k] = offer(o)
	}
	response.JSON(w, http.StatusOK, languagesReply{out})
	return nil
}

func offer(o host.Offer) offered {
	out := offered{ID: o.ID, Name: o.Name, Aliases: o.Aliases, Advertised: o.Advertised, Available: o.Missing == ""}
	if out.Available { // what is missing, and where it was looked for, is the operator's
		out.Toolchain, out.Version = o.Toolchain, o.Version
	}
	return out
}
