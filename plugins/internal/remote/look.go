package remote

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/control"
	"github.com/caisson-run/caisson/plugins/internal/envd"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Get implements backend.Backend.
func (b *Backend) Get(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	c, err := b.config("Get", ref.Config)
	if err != nil {
		return backend.Sandbox{}, err
	}
	return c.get(ctx, "Get", ref.ID)
}

// get describes a sandbox of this config. It wakes nothing. What has ended, or belongs
// to another config, is absent.
func (c *config) get(ctx context.Context, op, id string) (backend.Sandbox, error) {
	if err := ctx.Err(); err != nil {
		return backend.Sandbox{}, err
	}
	if !c.Dialect.ValidID(id) {
		return backend.Sandbox{}, c.absent(op)
	}
	s, err := c.API.Describe(ctx, op, c.named(id))
	if err != nil {
		if gone(err) {
			c.forget(id)
		}
		return backend.Sandbox{}, err
	}
	sb, err := c.adopt(op, id, s)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if sb.State == backend.StateTerminated {
		c.forget(id)
		e := c.b.fail(op, backend.KindTerminal, "the sandbox has ended (%s)", sb.RawState)
		e.Subject = backend.SubjectSandbox
		return backend.Sandbox{}, e
	}
	// What is known of it, and what was just said; the latter wins.
	rec, _ := c.records.find(id)
	if err := c.data.Bind(id, rec.endpoint()); err != nil {
		return backend.Sandbox{}, err
	}
	return sb, c.data.Bind(id, c.endpoint(s))
}

// adopt reads whose a sandbox is. It fails unless it is this config's.
func (c *config) adopt(op, id string, s control.Sandbox) (backend.Sandbox, error) {
	owner, meta, policy, ours := read(s.Metadata)
	if !ours && c.traits.LosesMetadata {
		if k, ok := c.recall(id); ok {
			owner, meta, policy, ours = c.id, k.metadata, k.policy, true
		} else if rec, ok := c.records.find(id); ok {
			owner, meta, policy, ours = read(rec.Metadata)
		} else if len(s.Metadata) == 0 {
			// It may be ours without its metadata, or somebody else's.
			return backend.Sandbox{}, c.b.fail(op, backend.KindUnavailable, "the provider does not say whose the sandbox is, and nothing is recorded here")
		}
	}
	if !ours || owner != c.id {
		return backend.Sandbox{}, c.absent(op)
	}
	k, seen := c.recall(id)
	if !seen || k.created.IsZero() {
		k = known{metadata: meta, policy: policy, created: s.StartedAt}
		c.remember(id, k)
	}
	state := control.Neutral(s.State)
	sb := backend.Sandbox{
		Ref: backend.Ref{Config: c.id, ID: id}, State: state, RawState: s.State, Metadata: clone(k.metadata),
		Created: k.created, Token: s.TrafficAccessToken,
	}
	if state == backend.StateRunning {
		sb.Expires = s.EndAt // for a paused one it is when it was paused
	}
	return sb, nil
}

func clone(m backend.Metadata) backend.Metadata {
	m.Labels = maps.Clone(m.Labels)
	return m
}

func (c *config) endpoint(s control.Sandbox) envd.Endpoint {
	e := envd.Endpoint{Domain: s.Domain, AccessToken: s.EnvdAccessToken, TrafficToken: s.TrafficAccessToken}
	if c.traits.TrueVersion {
		e.Version = s.EnvdVersion
	}
	return e
}

// named is a sandbox with what is known to open it.
func (c *config) named(id string) control.Named {
	e, _ := c.data.Endpoint(id)
	return control.Named{ID: id, Hide: []string{e.AccessToken, e.TrafficToken}}
}

// Locate implements envd.Control.
func (c *config) Locate(ctx context.Context, id string) (envd.Location, error) {
	sb, err := c.get(ctx, "Get", id)
	if err != nil {
		return envd.Location{}, err
	}
	e, _ := c.data.Endpoint(id)
	return envd.Location{Endpoint: e, State: sb.State}, nil
}

// List implements backend.Backend.
func (b *Backend) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	c, err := b.config("List", f.Config)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, err := c.list(ctx, "List", f)
	if err != nil {
		return nil, err
	}
	found := make([]backend.Sandbox, 0, len(all))
	for _, sb := range all {
		if f.Matches(sb) {
			found = append(found, sb)
		}
	}
	return found, nil
}

// list returns the sandboxes of this config, more than those that match.
func (c *config) list(ctx context.Context, op string, f backend.ListFilter) ([]backend.Sandbox, error) {
	match := filter(c.id, f)
	if c.traits.FilterLocally {
		match = nil
	}
	listed, err := c.API.Sandboxes(ctx, op, match)
	if err != nil {
		return nil, err
	}
	all := make([]backend.Sandbox, 0, len(listed))
	seen := make(map[string]bool, len(listed))
	for _, s := range listed {
		if seen[s.SandboxID] || !c.Dialect.ValidID(s.SandboxID) {
			continue // a page may overlap with the one before
		}
		seen[s.SandboxID] = true
		if sb, err := c.adopt(op, s.SandboxID, s); err == nil {
			all = append(all, sb)
		}
	}
	if c.traits.LosesMetadata && f.Session != "" && !slices.ContainsFunc(all, f.Matches) {
		all = append(all, c.unlisted(ctx, op, f.Session)...)
	}
	if f.Session == "" && f.Tenant == "" { // whoever asks for all is in no hurry
		c.prune(ctx, seen)
	}
	return all, nil
}

// unlisted finds sandboxes of a session that a provider leaves out of its listings, by
// what is recorded here.
func (c *config) unlisted(ctx context.Context, op, session string) []backend.Sandbox {
	var found []backend.Sandbox
	for _, id := range c.records.older(time.Time{}) {
		rec, ok := c.records.find(id)
		if _, meta, _, ours := read(rec.Metadata); !ok || !ours || meta.Session != session || !c.Dialect.ValidID(id) {
			continue
		}
		if sb, err := c.get(ctx, op, id); err == nil {
			found = append(found, sb)
		}
	}
	return found
}

// Records of sandboxes that ended by themselves are removed a few at a time, a day
// after they were written at the earliest, and only on the provider's word.
const (
	pruneAfter = 24 * time.Hour
	pruneAtOne = 4
)

func (c *config) prune(ctx context.Context, listed map[string]bool) {
	left := pruneAtOne
	for _, id := range c.records.older(c.b.p.Now().Add(-pruneAfter)) {
		if listed[id] || !c.Dialect.ValidID(id) {
			continue
		}
		if left--; left < 0 {
			return
		}
		_, _ = c.get(ctx, "List", id) // forgets what is proven gone
	}
}
