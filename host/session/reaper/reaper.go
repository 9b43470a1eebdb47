// Package reaper reconciles what providers have with what sessions are bound to:
// sandboxes of managed sessions that nobody can use any more are deleted, those whose
// binding was lost are bound again, and bindings to sandboxes that are gone go too.
//
// The providers' listings are enumerated, never the bindings: those are what gets
// lost. Sessions whose ids Caisson hands out need none of this; their clocks are
// minted.Sessions.Sweep.
package reaper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
)

// DefaultGrace protects sandboxes that were made a moment ago: their bindings may
// be on their way, and the clocks of provider and host may differ.
const DefaultGrace = 10 * time.Minute

// Options of a Reaper. Targets, Store and Exists are required.
type Options struct {
	Targets    session.Targets
	Store      *binding.Store
	Deployment string
	// Exists says which sessions an unbound sandbox may still be wanted for.
	Exists session.Existence
	// Grace protects new sandboxes; 0 means DefaultGrace and less than 0 none, for
	// when every sandbox is known to be abandoned.
	Grace time.Duration
	// Meter is told what was deleted; nil counts nothing.
	Meter session.Meter
	Log   hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Reaper sweeps. It is safe for concurrent use, on any number of replicas.
type Reaper struct{ o Options }

// New returns a Reaper.
func New(o Options) *Reaper {
	switch {
	case o.Grace == 0:
		o.Grace = DefaultGrace
	case o.Grace < 0:
		o.Grace = 0
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reaper{o}
}

// Report counts what a sweep did.
type Report struct {
	// Seen sandboxes of managed sessions, in all states.
	Seen int
	// Bound are the right ones, Adopted those that were bound again.
	Bound, Adopted int
	// Protected are unbound and left alone: new, of unknown age, in use, or of a
	// session of which nobody could say whether it exists.
	Protected int
	// Reaped were deleted; Unbound are bindings that went because their sandbox had.
	Reaped, Unbound int
	// Failed counts what could not be looked at or deleted. It is tried again by the
	// next sweep.
	Failed int
}

// Add adds what another sweep did.
func (r *Report) Add(o Report) {
	r.Seen, r.Bound, r.Adopted, r.Protected = r.Seen+o.Seen, r.Bound+o.Bound, r.Adopted+o.Adopted, r.Protected+o.Protected
	r.Reaped, r.Unbound, r.Failed = r.Reaped+o.Reaped, r.Unbound+o.Unbound, r.Failed+o.Failed
}

// Sweep reconciles every config. One failure never stops it: failures are counted
// and joined into the error.
func (r *Reaper) Sweep(ctx context.Context) (Report, error) {
	var all Report
	var errs []error
	for _, config := range r.o.Targets.Configs("") {
		one, err := r.SweepConfig(ctx, config, true)
		all.Add(one)
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// SweepConfig is Sweep for one config. Whoever has just seen that it has no managed
// sandbox says so: unless bindings speak against it there is nothing to list then.
func (r *Reaper) SweepConfig(ctx context.Context, config string, managed bool) (Report, error) {
	s := &sweep{Reaper: r}
	if ctx.Err() == nil {
		if err := s.config(ctx, config, managed); err != nil {
			s.fail(fmt.Errorf("config %q: %w", config, err))
		}
	}
	return s.Report, errors.Join(append(s.errs, ctx.Err())...)
}

// sweep is one pass.
type sweep struct {
	*Reaper
	Report
	errs []error
}

func (s *sweep) fail(err error) {
	s.Failed++
	s.errs = append(s.errs, err)
}

func (s *sweep) config(ctx context.Context, config string, managed bool) error {
	t, err := s.o.Targets.Named(ctx, "", config)
	if err != nil {
		return err
	}
	defer t.Release()
	if !t.Info.Has(backend.CapList) || !t.Info.Has(backend.CapMetadata) {
		return nil // its sandboxes cannot be told apart
	}
	// Which bindings there are is read before which sandboxes there are: one that is
	// made in between has its binding looked at again, and one that is not listed is
	// asked for by itself.
	known := s.bindings(ctx, config)
	if !managed && len(known) == 0 && s.Failed == 0 {
		return nil
	}
	f := backend.ListFilter{Config: config, Deployment: s.o.Deployment}
	listed, err := t.Backend.List(ctx, f)
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	listed = slices.DeleteFunc(listed, func(sb backend.Sandbox) bool { return !f.Matches(sb) })
	live := make(map[string]bool, len(listed))
	for _, sb := range listed {
		live[sb.ID] = true
	}
	if err := s.sandboxes(ctx, t, slices.DeleteFunc(listed, func(sb backend.Sandbox) bool { return !s.managed(sb) })); err != nil {
		return err
	}
	for _, b := range known {
		if b.Provider == session.ProviderOf(t) && !live[b.Sandbox] && ctx.Err() == nil {
			if err := s.unbind(ctx, t, b); err != nil {
				s.fail(fmt.Errorf("binding of session %q: %w", b.Session, err))
			}
		}
	}
	return nil
}

// bindings are those of a config. What cannot be read is counted and left alone.
func (s *sweep) bindings(ctx context.Context, config string) []binding.Binding {
	var list []binding.Binding
	for b, err := range s.o.Store.All(ctx, binding.Filter{Config: config}) {
		if err != nil {
			s.fail(err)
			continue
		}
		list = append(list, b)
	}
	return list
}

// keyOf is the session that a sandbox says it belongs to.
func keyOf(sb backend.Sandbox) binding.Key {
	return binding.Key{Tenant: sb.Metadata.Tenant, Session: sb.Metadata.Labels[session.LabelSession]}
}

// managed reports whether a Manager made a sandbox: its label and its name agree.
func (s *sweep) managed(sb backend.Sandbox) bool {
	key := keyOf(sb)
	return key.Validate() == nil && sb.Metadata.Session == session.NameOf(s.o.Deployment, key)
}

// sandboxes looks at a config's managed sandboxes, the livelier first: of several that
// could be adopted for one session, that one is.
func (s *sweep) sandboxes(ctx context.Context, t session.Target, list []backend.Sandbox) error {
	slices.SortFunc(list, session.Livelier)
	keys := make([]binding.Key, len(list))
	for i, sb := range list {
		keys[i] = keyOf(sb)
	}
	bound, err := s.o.Store.Bindings(ctx, keys)
	if err != nil {
		// Which sessions it could not tell is not known, so nothing may be concluded
		// about any that is missing.
		return err
	}
	open := make(map[binding.Key]bool) // an unbound session's liveliest is left alone for now
	for i, sb := range list {
		s.Seen++
		b, isBound := bound[keys[i]]
		if isBound && b.Names(session.ProviderOf(t), sb.ID) {
			s.Bound++
			continue
		}
		if s.protected(sb) || open[keys[i]] {
			s.Protected++
			open[keys[i]] = !isBound
			continue
		}
		if ctx.Err() != nil {
			return nil // counted by the caller
		}
		if err := s.settle(ctx, t, sb); err != nil {
			open[keys[i]] = !isBound
			s.fail(fmt.Errorf("sandbox of session %q: %w", keys[i].Session, err))
		}
	}
	return nil
}

// protected reports whether an unbound sandbox is left alone without asking: it says
// itself until when, it is new or was active a moment ago, or its age is not known.
func (s *sweep) protected(sb backend.Sandbox) bool {
	if until := sb.Metadata.Labels[session.LabelUntil]; until != "" {
		at, err := time.Parse(time.RFC3339, until)
		return err == nil && !s.o.Now().After(at)
	}
	if s.o.Grace == 0 {
		return false
	}
	return sb.Created.IsZero() || s.fresh(sb.Created) || s.fresh(sb.LastActive)
}

// fresh reports whether something happened within the grace.
func (s *sweep) fresh(at time.Time) bool { return s.o.Now().Sub(at) < s.o.Grace }

// settle decides about a sandbox that looked unbound, under its session's lock and
// with everything read again.
func (s *sweep) settle(ctx context.Context, t session.Target, sb backend.Sandbox) error {
	key := keyOf(sb)
	return s.o.Store.WithLifecycleLock(ctx, key, func(ctx context.Context, own *binding.Ownership) error {
		b, bound, err := s.o.Store.Get(ctx, key)
		if err != nil {
			return err
		}
		if bound && b.Names(session.ProviderOf(t), sb.ID) {
			s.Bound++
			return nil
		}
		now, err := t.Backend.Get(ctx, sb.Ref)
		if backend.ProvesGone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if bound && s.fresh(b.Created) {
			// Which of several is the session's was decided a moment ago, perhaps under
			// work that went on in this one.
			s.Protected++
			return nil
		}
		if !bound && now.Metadata.Labels[session.LabelUntil] == "" {
			wanted, err := s.o.Exists.SessionExists(ctx, key)
			if err != nil {
				s.Protected++
				return fmt.Errorf("does the session exist: %w", err)
			}
			if wanted {
				return s.adopt(ctx, t, now)
			}
		}
		return s.reap(own, t, now)
	})
}

// adopt binds a sandbox whose session is still there and has no other.
func (s *sweep) adopt(ctx context.Context, t session.Target, sb backend.Sandbox) error {
	ok, err := s.o.Store.Create(ctx, binding.Binding{
		Key: keyOf(sb), Provider: session.ProviderOf(t), Config: t.Config, Sandbox: sb.ID,
		Created: s.o.Now(), Token: sb.Token,
	})
	if err == nil && ok {
		s.Adopted++
	}
	return err
}

// reap deletes a sandbox, as the proven owner of its session's lock.
func (s *sweep) reap(own *binding.Ownership, t session.Target, sb backend.Sandbox) error {
	ctx := own.Context()
	if err := own.Verify(ctx); err != nil {
		return err
	}
	if err := t.Backend.Delete(ctx, sb.Ref); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	s.Reaped++
	if s.o.Meter != nil {
		s.o.Meter.Settle(ctx, session.HoldingOf(sb))
	}
	s.o.Log.Info("deleted a sandbox that no session has", "session", keyOf(sb).Session, "config", t.Config)
	return nil
}

// unbind takes a binding away if the provider proves that its sandbox is gone.
func (s *sweep) unbind(ctx context.Context, t session.Target, b binding.Binding) error {
	return s.o.Store.WithLifecycleLock(ctx, b.Key, func(ctx context.Context, _ *binding.Ownership) error {
		now, bound, err := s.o.Store.Get(ctx, b.Key)
		if err != nil || !bound || !now.Names(b.Provider, b.Sandbox) {
			return err
		}
		_, err = t.Backend.Get(ctx, backend.Ref{Config: t.Config, ID: b.Sandbox})
		if !backend.ProvesGone(err) {
			return err // listings may lag behind; or doubt, which proves nothing
		}
		ok, err := s.o.Store.DeleteIfMatch(ctx, b.Key, b.Provider, b.Sandbox)
		if err == nil && ok {
			s.Unbound++
		}
		return err
	})
}
