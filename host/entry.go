package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/caisson-run/caisson/host/telemetry"
	"github.com/hashicorp/go-hclog"
)

// Entry is a set of routes that an embedding program mounts: plugins/exec is one.
type Entry struct {
	// Name is the entry's own, for logs and prices: "exec".
	Name string
	// Price says how it is charged. Metered entries mount only with Billing.
	Price Price
	// Mount registers the routes. What it starts, it stops through Mounting.OnClose.
	Mount func(ctx context.Context, m *Mounting) error
}

// Mounting is what an entry gets to work with while it mounts.
type Mounting struct {
	Host    *Host
	Billing Billing
	// Standing is Admission.Standing.
	Standing func(ctx context.Context, p Principal, act Act) error
	// AdmissionReady says whether anybody can be admitted now: what the platform's
	// Admission answers if it has a method Ready(context.Context) error, else nil.
	AdmissionReady func(ctx context.Context) error
	Log            hclog.Logger

	router    Router
	admission Admission
	telemetry *telemetry.Telemetry

	mu        sync.Mutex
	prefixes  []string
	intercept func(http.ResponseWriter, *http.Request) bool
	closers   []func(context.Context) error
}

// Prefixes declares below which paths the entry answers, for example
// "/v1/exec". A guarded route that is reached under any other path, because a
// platform mounted or rewrote it elsewhere, answers 403: drift closes doors, it
// never opens one.
func (m *Mounting) Prefixes(prefixes ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.prefixes = append(m.prefixes, prefixes...)
}

// Intercept sets what looks at every request to a guarded route before anybody is
// admitted, and reports whether it has answered: requests that another node of the
// deployment answers, which admits for itself. Call it before routes are served.
func (m *Mounting) Intercept(f func(http.ResponseWriter, *http.Request) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.intercept = f
}

func (m *Mounting) intercepted(w http.ResponseWriter, r *http.Request) bool {
	m.mu.Lock()
	f := m.intercept
	m.mu.Unlock()
	return f != nil && f(w, r)
}

// Handle registers a route behind admission: h runs only for requests that
// Admission let in, with the Principal in their context. Refusals are written
// by refuse, in the shape of the entry's own errors. Every request has an id
// (RequestID), and a span where there is tracing.
func (m *Mounting) Handle(pattern string, h http.Handler, refuse func(http.ResponseWriter, *http.Request, *HTTPError)) {
	m.router.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := m.telemetry.Request(r)
		defer span.End(nil)
		if span.Exists() {
			r = r.WithContext(ctx)
		}
		r = Identify(w, r)
		if !m.covers(r.URL.Path) {
			refuse(w, r, &HTTPError{Status: http.StatusForbidden, Code: "forbidden", Message: "this path is not open"})
			return
		}
		if m.intercepted(w, r) {
			return
		}
		_, phase := m.telemetry.Phase(r.Context(), telemetry.PhaseAdmission)
		p, err := m.admission.Admit(r)
		phase.End(err)
		if err == nil && p.Org == "" {
			err = &HTTPError{Status: http.StatusForbidden, Code: "forbidden", Message: "the credential names no organisation"}
		}
		if err != nil {
			var he *HTTPError
			if !errors.As(err, &he) {
				he = &HTTPError{Status: http.StatusServiceUnavailable, Code: "unavailable", Message: "access cannot be checked now", Cause: err}
			}
			refuse(w, r, he)
			return
		}
		ctx = renamed(r.Context(), w, &p)
		h.ServeHTTP(w, r.WithContext(WithPrincipal(ctx, p)))
	}))
}

// HandlePublic registers a route that needs no credential, such as health.
func (m *Mounting) HandlePublic(pattern string, h http.Handler) {
	m.router.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, Identify(w, r))
	}))
}

// OnClose registers what Host.Close calls, last registered first.
func (m *Mounting) OnClose(f func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closers = append(m.closers, f)
}

// covers compares folded, cleaned paths: a router that ignores case or doubled
// slashes must not be a way around the prefix list.
func (m *Mounting) covers(p string) bool {
	p = strings.ToLower(path.Clean("/" + p))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, prefix := range m.prefixes {
		prefix = strings.TrimSuffix(prefix, "/")
		if p == prefix || strings.HasPrefix(p, prefix+"/") {
			return true
		}
	}
	return false
}

func (m *Mounting) close(ctx context.Context) error {
	m.mu.Lock()
	closers := m.closers
	m.closers = nil
	m.mu.Unlock()
	var errs []error
	for i := len(closers) - 1; i >= 0; i-- {
		errs = append(errs, closers[i](ctx))
	}
	return errors.Join(errs...)
}

// Mount registers an entry with the platform. An entry that fails to mount
// leaves nothing running, though a router cannot forget its routes.
func (h *Host) Mount(ctx context.Context, e Entry) error {
	p := h.o.Platform
	switch {
	case e.Name == "" || e.Mount == nil:
		return errors.New("mount: an entry needs a name and a Mount function")
	case p.Router == nil:
		return fmt.Errorf("mount %q: the platform has no router", e.Name)
	case p.Admission == nil:
		return fmt.Errorf("mount %q: the platform has no admission", e.Name)
	case e.Price == Unpriced:
		return fmt.Errorf("mount %q: the entry states no price", e.Name)
	case e.Price == Metered && p.Billing == nil:
		return fmt.Errorf("mount %q: the entry is metered and the platform has no billing; use host.Free where runs cost nothing", e.Name)
	}
	m := &Mounting{
		Host: h, Billing: p.Billing, Standing: p.Admission.Standing, Log: h.log.Named(e.Name),
		AdmissionReady: func(context.Context) error { return nil },
		router:         p.Router, admission: p.Admission, telemetry: p.Telemetry,
	}
	if a, ok := p.Admission.(interface{ Ready(context.Context) error }); ok {
		m.AdmissionReady = a.Ready
	}
	if err := e.Mount(ctx, m); err != nil {
		return errors.Join(fmt.Errorf("mount %q: %w", e.Name, err), m.close(ctx))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mounts = append(h.mounts, m)
	return nil
}

type principalKey struct{}

// WithPrincipal returns ctx carrying p.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns the principal that admission put into ctx.
func PrincipalFrom(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
