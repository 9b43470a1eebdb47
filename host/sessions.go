package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/caisson-run/caisson/host/backendconfig"
	"github.com/caisson-run/caisson/host/peer"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
	"github.com/caisson-run/caisson/host/session/minted"
	"github.com/caisson-run/caisson/host/session/reaper"
	"github.com/caisson-run/caisson/sdk/backend"
)

// SessionOptions say how sessions are kept. The zero value is right for one process
// whose sessions are those of runs.
type SessionOptions struct {
	// Store agrees with other replicas on who has which sandbox; nil means that there
	// are none, and that bindings end with the process. The host does not close it.
	Store *binding.Store
	// Exists tells which of the sessions that the platform names still exist; see
	// Host.Managed. Nil means session.AlwaysExists, or with a shared store that Managed
	// is not available.
	Exists session.Existence
	// Bootstrap customises single sessions of Managed; nil customises none.
	Bootstrap session.Bootstrapper
	// Forget is told which sessions of Managed were destroyed; nil is fine.
	Forget func(ctx context.Context, key binding.Key)
	// Grace protects new sandboxes from the reaper; 0 means reaper.DefaultGrace.
	Grace time.Duration
	// LeaseFee is the price of holding a sandbox for an hour in cents, asked for each
	// one: Fee of the process's environment for ActLease, 0 when it says nothing.
	LeaseFee func() int64
	// Peers are the other nodes and where they answer: requests about sessions with a
	// sandbox there are passed on, so that replicas with backends of their own may
	// share a store. Options.Node is needed then.
	Peers map[string]string
}

// sessionKeeping is the part of a Host that keeps sessions.
type sessionKeeping struct {
	minted *minted.Sessions
	// managed is nil, and unmanaged says why, where Managed is not available.
	managed   *session.Resolver
	unmanaged error
	reaper    *reaper.Reaper
	report    binding.Report
	store     *binding.Store
	own       *binding.Store // to be closed
	// cordons keep tenants' work away from configs that are being changed.
	cordons backendconfig.Cordons
	peers   *peer.Peers
}

func (k *sessionKeeping) close() error {
	k.peers.Close()
	if k.own == nil {
		return nil
	}
	return k.own.Close()
}

// openSessions begins to keep sessions. now is the clock that the platform set, nil
// when it set none.
func (h *Host) openSessions(ctx context.Context, now func() time.Time) error {
	o := h.o.Sessions
	if o.Store == nil {
		store, err := binding.New(memory.NewEngine(memory.Options{}), binding.Options{Log: h.log.Named("bindings")})
		if err != nil {
			return fmt.Errorf("session store: %w", err)
		}
		o.Store, h.keeping.own = store, store
	}
	k := &h.keeping
	k.store = o.Store
	var err error
	if k.report, err = o.Store.Check(ctx); err != nil {
		return fmt.Errorf("session store: %w", err)
	}
	k.cordons = &backendconfig.Memory{}
	if k.report.Shared {
		k.cordons = backendconfig.Shared(o.Store, h.o.Now)
	}
	targets := backendconfig.Targets(h.backends, k.cordons)
	for _, w := range k.report.Warnings {
		h.log.Warn("session store", "kind", k.report.Kind, "warning", w)
	}
	if len(o.Peers) > 0 {
		if k.peers, err = peer.New(peer.Options{Node: h.o.Node, Peers: o.Peers, Keys: h.o.Keys, Log: h.log.Named("peer")}); err != nil {
			return err
		}
	}
	if k.report.Shared && len(o.Peers) == 0 {
		if err := h.refuseLocal(ctx); err != nil {
			return err
		}
	}
	if o.LeaseFee == nil {
		o.LeaseFee = func() int64 { return Fee(os.LookupEnv, string(ActLease), 0) }
	}
	var meter session.Meter
	if h.o.Platform.Billing != nil {
		meter = leases{billing: h.o.Platform.Billing, hourly: o.LeaseFee, now: h.o.Now, log: h.log.Named("lease")}
	}
	log := h.log.Named("session")
	k.minted = minted.New(minted.Options{
		Keys: h.o.Keys, Targets: targets, Store: o.Store, Shared: k.report.Shared, Deployment: h.o.Deployment,
		Clocks: h.o.Config.Clocks, Meter: meter, Log: log, Now: now,
	})
	if o.Exists == nil {
		o.Exists = session.AlwaysExists{}
		if k.report.Shared {
			o.Exists = unknownExistence{}
		}
	}
	if o.Exists != (unknownExistence{}) {
		k.managed, err = session.NewResolver(ctx, session.ManagerOptions{
			Targets: targets, Store: o.Store, Deployment: h.o.Deployment, Exists: o.Exists,
			Bootstrap: o.Bootstrap, Forget: o.Forget, Meter: meter, Log: log, Now: h.o.Now,
		})
		if err != nil {
			return err
		}
	} else {
		k.unmanaged = errNoExistence
	}
	k.reaper = reaper.New(reaper.Options{
		Targets: h.backends, Store: o.Store, Deployment: h.o.Deployment, Exists: o.Exists,
		Grace: o.Grace, Meter: meter, Log: log, Now: h.o.Now,
	})
	h.tasks.Go(func() { h.keepSessions(h.life) })
	return nil
}

// errNoExistence: nobody can say which managed sessions exist.
var errNoExistence = errors.New("replicas share the session store, so SessionOptions.Exists has to say which sessions exist")

// unknownExistence is Existence where nobody can tell: nothing is made, and nothing
// is deleted because of it.
type unknownExistence struct{}

func (unknownExistence) SessionExists(context.Context, binding.Key) (bool, error) {
	return false, errNoExistence
}

// refuseLocal refuses backends whose sandboxes live on one machine: another replica
// would not find them, and must not make new ones in their place.
func (h *Host) refuseLocal(ctx context.Context) error {
	for _, config := range h.backends.Configs("") {
		t, err := h.backends.Named(ctx, "", config)
		if err != nil {
			h.log.Warn("cannot tell yet whether replicas share a backend's sandboxes", "config", config, "error", err)
			continue
		}
		shared := t.Info.Has(backend.CapShared)
		t.Release()
		if !shared {
			return fmt.Errorf("sandbox config %q: its sandboxes live on this machine, and replicas share the session store: name the node and its peers, or give every replica a store of its own", config)
		}
	}
	return nil
}

// keepSessions sweeps until ctx ends.
func (h *Host) keepSessions(ctx context.Context) {
	clocks := h.o.Config.Clocks
	if clocks == (session.Clocks{}) {
		clocks = session.DefaultClocks()
	}
	tick := time.NewTicker(max(clocks.Sweep, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r, err := h.Sweep(ctx)
		if err != nil && ctx.Err() == nil {
			h.log.Warn("sweep incomplete", "seen", r.Sessions.Seen, "failed", r.Sessions.Failed+r.Sandboxes.Failed, "error", err)
		}
	}
}

// SweepReport is what a sweep did: Sessions of runs that outlived their clocks, and
// Sandboxes of Managed that no session has.
type SweepReport struct {
	Sessions  minted.SweepReport
	Sandboxes reaper.Report
	// Elsewhere counts the configs that another replica is sweeping.
	Elsewhere int
}

// Sweep ends the sessions that outlived their clocks, and reconciles providers and
// bindings, now instead of at the next turn. Failures are counted and joined into
// the error; they stop nothing. Of the replicas that reach the same sandboxes one
// sweeps at a time.
func (h *Host) Sweep(ctx context.Context) (SweepReport, error) {
	var r SweepReport
	var errs []error
	for _, config := range h.backends.Configs("") {
		t, err := h.backends.Named(ctx, "", config)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		node := t.Node
		t.Release()
		ran, err := reaper.Alone(ctx, h.keeping.store, fmt.Sprintf("%s %s %s", h.o.Deployment, config, node), func(ctx context.Context) error {
			ended, err := h.keeping.minted.SweepConfig(ctx, config)
			r.Sessions.Add(ended)
			reaped, reapErr := h.keeping.reaper.SweepConfig(ctx, config, ended.Managed > 0 || err != nil)
			r.Sandboxes.Add(reaped)
			return errors.Join(err, reapErr)
		})
		if !ran && err == nil {
			r.Elsewhere++
		}
		errs = append(errs, err)
	}
	h.Telemetry().Swept(r.Sessions.Seen+r.Sessions.Managed, r.Sessions.Ended+r.Sandboxes.Reaped, r.Sessions.Failed+r.Sandboxes.Failed)
	return r, errors.Join(errs...)
}

// Sessions finds, makes and ends the sessions of runs, whose ids the host hands out.
func (h *Host) Sessions() *minted.Sessions { return h.keeping.minted }

// Managed gives sandboxes to sessions that the platform names: chats, documents,
// jobs. Its error says what is missing from SessionOptions.
func (h *Host) Managed() (*session.Resolver, error) {
	return h.keeping.managed, h.keeping.unmanaged
}

// Peers are the other nodes of the deployment; nil where none are configured.
func (h *Host) Peers() *peer.Peers { return h.keeping.peers }

// SessionStore describes where bindings are kept.
func (h *Host) SessionStore() binding.Report { return h.keeping.report }

// AllSessions lists the sandboxes of the deployment, of every tenant and kind, without
// waking any: for operators. A backend that cannot be asked is an error beside what
// the others answered.
func (h *Host) AllSessions(ctx context.Context) ([]backend.Sandbox, error) {
	return h.keeping.minted.List(ctx, "")
}

// EndSession ends a session of any tenant by the id that AllSessions shows, for
// operators. It returns session.ErrNotFound for one that is not there.
func (h *Host) EndSession(ctx context.Context, id string) error {
	list, err := h.AllSessions(ctx)
	for _, sb := range list {
		m := sb.Metadata
		switch name := m.Labels[session.LabelSession]; {
		case m.Session != id:
		case name == "":
			return h.keeping.minted.End(ctx, session.Owner{Tenant: m.Tenant}, id)
		case h.keeping.managed == nil:
			return h.keeping.unmanaged
		default:
			manager, err := h.keeping.managed.Resolve(ctx, m.Tenant, sb.Config)
			if err != nil {
				return err
			}
			return manager.Destroy(ctx, name)
		}
	}
	if err != nil {
		return err
	}
	return session.ErrNotFound
}
