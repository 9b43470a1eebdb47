package exec

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/caisson-run/caisson/plugins/exec/internal/events"
)

// exec answers POST /exec.
func (d *door) exec(w http.ResponseWriter, r *http.Request) error {
	p := principal(r)
	if err := checkHeaders(r.Header); err != nil {
		return err
	}
	// The place comes first: it bounds how many bodies are in memory.
	place, err := d.join(p.Org)
	if err != nil {
		return err
	}
	defer place.Leave()
	share := d.bodies.Open(p.Org)
	defer share.Close()
	body, err := d.readBody(w, r, d.o.BodyBytes, share)
	if err != nil {
		return err
	}
	in, refused := decodeRun(body)
	if refused != nil {
		return refused
	}
	if node, err := d.nodeOf(r, in); node != nil || err != nil {
		if err != nil {
			return err
		}
		place.Leave()
		return d.pass(w, r, node, bytes.NewReader(body))
	}
	if err := share.Decoded(int64(len(body))); err != nil { // in has no more
		return tooManyBodies(err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &call{in: in, place: place, principal: p, billing: d.billing, cents: d.o.Fee(), log: d.log}
	out := d.deliver(w, r, c, cancel)
	defer func() {
		out.end()
		if v := recover(); v != nil {
			_ = out.fail(errPanic, c) // an answer that began still has to be one
			panic(v)
		}
	}()
	res, err := d.run(ctx, c)
	annotate(r.Context(), "run", c.runID, "session", c.session, "started", c.started, "outcome", c.outcome)
	if err != nil {
		return out.fail(err, c)
	}
	out.result(res)
	return nil
}

// delivery is how a run is answered: as one JSON value, or as events.
type delivery interface {
	// end stops what is sent meanwhile. It may be called more than once.
	end()
	// result answers with what came of the run.
	result(res *CodeResult)
	// fail answers with why there is no result, or returns err for the caller to
	// answer while the status may still say it.
	fail(err error, c *call) error
}

func (d *door) deliver(w http.ResponseWriter, r *http.Request, c *call, cancel func()) delivery {
	if events.Wanted(r.Header) {
		s := newStreamed(w, d.o, cancel)
		c.admitted, c.watch = s.open, s
		return s
	}
	out := newReply(w, d.o.KeepAlive)
	c.admitted = out.keepAlive
	return out
}

var errPanic = errors.New("panic")

// checkHeaders refuses what a client asks of the server as a whole and this one
// is not, before anything is done (docs/wire.md).
func checkHeaders(h http.Header) error {
	if p := strings.ToLower(strings.TrimSpace(h.Get("X-CodeAPI-Expected-Profile"))); p != "" && p != "default" {
		return refuse(http.StatusConflict, codeProfile, "this server has the default execution profile only")
	}
	if h.Get("X-LibreChat-Code-Worker-ID") != "" || h.Get("X-LibreChat-Code-Workspace-ID") != "" {
		return refuse(http.StatusConflict, codeWorkspace, "this server has no attached workspaces")
	}
	return nil
}
