package exec

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/linger"
	"github.com/caisson-run/caisson/plugins/exec/internal/response"
	"github.com/hashicorp/go-hclog"
)

// door is the mounted entry: the interpreter with the platform's money and log.
type door struct {
	*Interpreter
	billing  host.Billing
	standing func(ctx context.Context, p host.Principal, act host.Act) error
	// admits says whether anybody can be admitted.
	admits func(ctx context.Context) error
	log    hclog.Logger
	ready  readiness
	paths  map[string]bool // of routes, below their bases
	// lingering keeps connections whose requests were refused early.
	lingering *linger.Closer
}

// action answers a request that was let in. What it returns instead of answering
// is answered by the caller.
type action func(w http.ResponseWriter, r *http.Request) error

// route is one path below every base, with what each method does there.
type route struct {
	path    string
	methods map[string]action
	public  bool
}

// routes is the whole surface. The aliases of docs/wire.md come from
// mounting it below each base: "/exec" below "", "/v1" and "/v1/exec" is
// "/exec", "/v1/exec" and "/v1/exec/exec".
func (d *door) routes() []route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []route{
		{path: "/exec", methods: map[string]action{post: d.exec}},
		{path: "/exec/programmatic", methods: map[string]action{post: d.programmatic}},
		{path: "/exec/programmatic/cancel", methods: map[string]action{post: d.cancelProgram}},
		{path: "/upload", methods: map[string]action{post: d.uploadOne}},
		{path: "/upload/batch", methods: map[string]action{post: d.uploadBatch}},
		{path: "/download/{sid}", methods: map[string]action{get: d.downloadNothing}},
		{path: "/download/{sid}/{fid...}", methods: map[string]action{get: d.download}},
		{path: "/files/{sid}", methods: map[string]action{get: d.list}},
		{path: "/files/{sid}/{fid...}", methods: map[string]action{del: d.remove}},
		{path: "/sessions/{sid}/objects/{fid...}", methods: map[string]action{get: d.object, del: d.remove}},
		{path: "/languages", methods: map[string]action{get: d.languages}},
		{path: "/openapi.json", methods: map[string]action{get: describe}, public: true},
		{path: healthPath, methods: map[string]action{get: d.healthy}, public: true},
	}
}

const healthPath = "/health"

// served are the methods that get a pattern of their own at every path. A
// pattern without a method would answer all, but collides with a platform that
// has "GET /". OPTIONS is left to the platform.
var served = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func (d *door) mount(m mounting) {
	i := d.Interpreter
	d.paths, d.lingering = make(map[string]bool), linger.New()
	seen := make(map[string]bool)
	for _, base := range i.o.Bases {
		base = strings.TrimRight(base, "/")
		for _, rt := range d.routes() {
			path := base + rt.path
			if seen[path] {
				continue // "" and "/v1" with another base may meet
			}
			seen[path], d.paths[rt.path] = true, true
			if !rt.public {
				m.Prefixes(prefixOf(base, rt.path))
			}
			for _, method := range served {
				h := d.wrap(rt, rt.methods[method])
				for _, p := range spellings(path) {
					if rt.public {
						m.HandlePublic(method+" "+p, h)
					} else {
						m.Handle(method+" "+p, h, d.refused(rt.path))
					}
				}
			}
		}
	}
	m.Intercept(d.elsewhere)
	m.OnClose(i.close)
	m.OnClose(i.measured())
}

// prefixOf is what admission covers for a route: its fixed first segment.
func prefixOf(base, path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return base + "/" + first
}

// spellings are a path and the same with a slash behind it.
func spellings(path string) []string {
	if strings.HasSuffix(path, "...}") {
		return []string{path} // the wildcard has it already
	}
	return []string{path, path + "/{$}"}
}

// wrap turns an action into a handler: one line of log, panics and errors
// answered, other methods refused.
func (d *door) wrap(rt route, act action) http.Handler {
	if act == nil {
		allow := make([]string, 0, len(rt.methods))
		for _, m := range served {
			if rt.methods[m] != nil {
				allow = append(allow, m)
			}
			if m == http.MethodGet && rt.methods[m] != nil {
				allow = append(allow, http.MethodHead) // a pattern of GET has it too
			}
		}
		act = func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Allow", strings.Join(allow, ", "))
			return refuse(http.StatusMethodNotAllowed, "method_not_allowed", "this path answers "+strings.Join(allow, " and ")+" only")
		}
	}
	class := classOf(rt.path)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := d.o.Now()
		d.telemetry.RequestBegan()
		out := response.New(w, d.o.Stall)
		note := &notes{}
		r = r.WithContext(context.WithValue(r.Context(), notesKey{}, note))
		defer func() {
			if v := recover(); v != nil {
				if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					note.gone = r.Context().Err() != nil
					d.line(rt.path, r, out, start, note, err)
					panic(v) // the client has to see that the answer breaks off
				}
				d.log.Error("panic in a handler", "route", rt.path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
				note.gone = r.Context().Err() != nil
				end := d.refuse(out, r, refuse(http.StatusInternalServerError, "internal", "internal error"))
				out.End()
				d.line(rt.path, r, out, start, note, fmt.Errorf("panic: %v", v))
				end()
			}
		}()
		var err error
		if !rt.public {
			err = d.take(r.Context(), principal(r), class)
		}
		if err == nil {
			err = act(out, r)
		}
		note.gone = hungUp(r, err)
		end := func() {}
		if err != nil {
			end = d.refuse(out, r, asRefusal(err))
		}
		out.End()
		d.line(rt.path, r, out, start, note, err)
		end()
	})
}

// refuse answers with e unless an answer has begun. What it returns is called last: it
// keeps the connection until the client, which may send its body yet, has read that.
func (d *door) refuse(out *response.Writer, r *http.Request, e *host.HTTPError) (end func()) {
	if out.Began() {
		return func() {}
	}
	linger.Hurry(out)
	response.Refuse(out, e)
	return func() { d.lingering.End(out, r) }
}

// refused answers what admission turned away.
func (d *door) refused(path string) func(http.ResponseWriter, *http.Request, *host.HTTPError) {
	return func(w http.ResponseWriter, r *http.Request, e *host.HTTPError) {
		start := d.o.Now()
		d.telemetry.RequestBegan()
		out := response.New(w, d.o.Stall)
		note := &notes{gone: hungUp(r, e)}
		end := d.refuse(out, r, e)
		out.End()
		d.line(path, r, out, start, note, e)
		end()
	}
}

// line ends a request: its one line of log, without bodies, queries and keys, and what
// is measured. path is a route's own, or a pattern that is mounted.
func (d *door) line(path string, r *http.Request, out *response.Writer, start time.Time, n *notes, err error) {
	path = d.routeOf(path)
	status := out.Status()
	if n.gone || out.Err() != nil {
		status = statusGone
	}
	took := d.o.Now().Sub(start)
	d.telemetry.RequestEnded(path, r.Method, status, took)
	id := host.RequestID(r.Context())
	if span := d.telemetry.Current(r.Context()); span.Exists() {
		span.Answered(status)
		span.Text("caisson.request_id", id)
	}
	args := []any{"method", r.Method, "route", path, "status", status, "ms", took.Milliseconds(), "bytes", out.Bytes()}
	if id != "" {
		args = append(args, "request", id)
	}
	if p, ok := host.PrincipalFrom(r.Context()); ok {
		args = append(args, "org", p.Org, "via", p.Via)
	}
	if err == nil {
		err = out.Err()
	}
	args = append(args, n.args...)
	if err != nil {
		args = append(args, "error", err)
	}
	level := hclog.Info
	switch {
	case path == healthPath:
		level = hclog.Debug // a probe asks every few seconds
	case status >= http.StatusInternalServerError:
		level = hclog.Warn
	}
	d.log.Log(level, "request", args...)
}

// routeOf is the path below its base of a pattern that is mounted.
func (d *door) routeOf(pattern string) string {
	_, path, ok := strings.Cut(pattern, " ")
	if !ok {
		return pattern
	}
	path = strings.TrimSuffix(path, "/{$}")
	short := path
	for _, base := range d.o.Bases {
		if rest, ok := strings.CutPrefix(path, strings.TrimRight(base, "/")); ok && len(rest) < len(short) && d.paths[rest] {
			short = rest
		}
	}
	return short
}

// notes are what an action adds to its line of log.
type notes struct {
	args []any
	gone bool // its caller, before it was answered
}

// hungUp reports whether the caller of a request that ended with err has gone. It is asked
// before the answer: a deadline for what is left of the body ends the context as well.
func hungUp(r *http.Request, err error) bool {
	return r.Context().Err() != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

type notesKey struct{}

func annotate(ctx context.Context, args ...any) {
	if n, ok := ctx.Value(notesKey{}).(*notes); ok {
		n.args = append(n.args, args...)
	}
}

// principal is who admission let in. Handlers run behind it only.
func principal(r *http.Request) host.Principal {
	p, ok := host.PrincipalFrom(r.Context())
	if !ok || p.Org == "" {
		panic("exec: a guarded route ran without a principal")
	}
	return p
}

// Drain ends programs that wait for their callers, and lets no further one wait: their
// callers cannot come any more. Runs go on. A server that waits for its requests to end
// calls it once it accepts no connections; closing the entry does the same.
func (i *Interpreter) Drain() { i.programs.Close() }

// close lets nobody in any more, gives runs in flight until ctx ends, and then
// stops them.
func (i *Interpreter) close(ctx context.Context) error {
	i.queue.Close()
	i.Drain()
	defer i.kill()
	if i.idle(ctx) == nil {
		return nil
	}
	i.kill()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if i.idle(ctx) != nil {
		return errors.New("exec: runs did not stop in time")
	}
	return nil
}

// idle waits until nothing runs any more.
func (i *Interpreter) idle(ctx context.Context) error {
	select {
	case <-i.queue.Empty():
		return i.programs.Wait(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stopGrace is how long a stopped run may take to end.
const stopGrace = 10 * time.Second
