package embedded

import (
	"context"
	"errors"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Create makes a sandbox: an empty directory that is its session's.
func (b *Backend) Create(_ context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	const op = "Create"
	c, err := b.config(op, spec.Config)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if err := supported(spec); err != nil {
		return backend.Sandbox{}, err
	}
	if spec.Metadata.Session != spec.Session {
		return backend.Sandbox{}, backend.Errorf(backend.KindInvalidRequest, op, "metadata.session: must be the session")
	}
	if c.MaxSandboxes > 0 {
		ids, err := b.store.IDs(spec.Config)
		if err != nil {
			return backend.Sandbox{}, sandboxError(op, err)
		}
		if len(ids) >= c.MaxSandboxes {
			return backend.Sandbox{}, backend.Errorf(backend.KindCapacity, op, "%d sandboxes are live, which is as many as max_sandboxes allows", len(ids))
		}
	}
	r := store.Record{Metadata: spec.Metadata, Env: spec.Env, Limits: spec.Limits}
	if spec.Timeout.Mode == backend.TimeoutAfter {
		r.Expires = b.o.Now().Add(spec.Timeout.Duration).UTC()
	}
	sb, err := b.store.Create(spec.Config, spec.Session, r)
	if err != nil {
		return backend.Sandbox{}, sandboxError(op, err)
	}
	defer sb.Release()
	return b.describe(op, backend.Ref{Config: spec.Config, ID: spec.Session})
}

// supported refuses what this backend cannot give, rather than answer without it.
func supported(spec backend.CreateSpec) error {
	no := func(format string, args ...any) error {
		return backend.Errorf(backend.KindUnsupported, "Create", format, args...)
	}
	n := spec.Network
	switch {
	case n.Mode == backend.NetworkOpen || len(n.Allow) > 0 || len(n.Rules) > 0 || n.PublicPorts:
		return no("network: the embedded backend has none")
	case len(spec.Volumes) > 0:
		return no("volumes: the embedded backend has none")
	case spec.Template != "" || spec.Snapshot != "":
		return no("template, snapshot: the embedded backend has none")
	case len(spec.Entrypoint) > 0:
		return no("entrypoint: the embedded backend runs nothing by itself")
	case spec.Timeout.Action == backend.TimeoutPause || spec.Timeout.AutoResume:
		return no("timeout: the embedded backend cannot pause; use action kill")
	case spec.Timeout.Mode == backend.TimeoutAfter && spec.Timeout.Duration < 0:
		return backend.Errorf(backend.KindInvalidRequest, "Create", "timeout.duration: must not be negative")
	}
	return nil
}

// Connect refreshes the idle clock; a directory is always ready.
func (b *Backend) Connect(_ context.Context, ref backend.Ref) (backend.Sandbox, error) {
	sb, err := b.use("Connect", ref)
	if err != nil {
		return backend.Sandbox{}, err
	}
	defer sb.Release()
	return b.describe("Connect", ref)
}

// Get describes a sandbox.
func (b *Backend) Get(_ context.Context, ref backend.Ref) (backend.Sandbox, error) {
	if _, err := b.config("Get", ref.Config); err != nil {
		return backend.Sandbox{}, err
	}
	return b.describe("Get", ref)
}

func (b *Backend) describe(op string, ref backend.Ref) (backend.Sandbox, error) {
	r, active, err := b.store.Look(ref.Config, ref.ID)
	if err == nil && !r.Expires.IsZero() && !r.Expires.After(b.o.Now()) {
		err = store.ErrAbsent // its time is up; expire removes it
	}
	if err != nil {
		return backend.Sandbox{}, sandboxError(op, err)
	}
	return backend.Sandbox{
		Ref: ref, State: backend.StateRunning, Metadata: r.Metadata,
		Created: r.Created, LastActive: active.UTC(), Expires: r.Expires,
	}, nil
}

// List returns what matches.
func (b *Backend) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	const op = "List"
	if _, err := b.config(op, f.Config); err != nil {
		return nil, err
	}
	ids := []string{f.Session}
	if f.Session == "" {
		var err error
		if ids, err = b.store.IDs(f.Config); err != nil {
			return nil, sandboxError(op, err)
		}
	}
	var out []backend.Sandbox
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		sb, err := b.describe(op, backend.Ref{Config: f.Config, ID: id})
		if backend.ProvesGone(err) {
			continue
		}
		if err != nil {
			// One damaged record must not hide the others.
			b.o.Log.Error("sandbox cannot be read", "sandbox", id, "error", err)
			continue
		}
		if f.Matches(sb) {
			out = append(out, sb)
		}
	}
	return out, nil
}

// Delete ends a sandbox and what runs in it.
func (b *Backend) Delete(ctx context.Context, ref backend.Ref) error {
	if _, err := b.config("Delete", ref.Config); err != nil {
		return err
	}
	err := b.store.Delete(ctx, ref.Config, ref.ID)
	if errors.Is(err, store.ErrAbsent) {
		return nil
	}
	return sandboxError("Delete", err)
}

// KeepAlive moves the sandbox's own end away.
func (b *Backend) KeepAlive(_ context.Context, ref backend.Ref, ttl time.Duration) (time.Time, error) {
	const op = "KeepAlive"
	if _, err := b.config(op, ref.Config); err != nil {
		return time.Time{}, err
	}
	if ttl < 0 {
		return time.Time{}, backend.Errorf(backend.KindInvalidRequest, op, "ttl: must not be negative")
	}
	sb, err := b.use(op, ref)
	if err != nil {
		return time.Time{}, err
	}
	defer sb.Release()
	now, err := b.describe(op, ref)
	if err != nil {
		return time.Time{}, err
	}
	at := b.o.Now().Add(ttl).UTC()
	if now.Expires.IsZero() || now.Expires.After(at) {
		return now.Expires, nil
	}
	if err := b.store.SetExpires(ref.Config, ref.ID, at); err != nil {
		return time.Time{}, sandboxError(op, err)
	}
	return at, nil
}

// use takes a sandbox into use for one call, which counts as activity.
func (b *Backend) use(op string, ref backend.Ref) (*store.Sandbox, error) {
	if _, err := b.config(op, ref.Config); err != nil {
		return nil, err
	}
	if _, err := b.describe(op, ref); err != nil {
		return nil, err
	}
	sb, err := b.store.Get(ref.Config, ref.ID)
	if err != nil {
		return nil, sandboxError(op, err)
	}
	sb.Touch()
	return sb, nil
}

// expireEvery is how often sandboxes past their end are removed. They are absent
// from that end on; this is about their files.
const expireEvery = time.Minute

func (b *Backend) expire() {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		b.removeExpired()
		select {
		case <-b.life.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *Backend) removeExpired() {
	configs, err := b.store.Configs()
	if err != nil {
		b.o.Log.Warn("expired sandboxes cannot be looked for", "error", err)
	}
	for _, config := range configs {
		ids, err := b.store.IDs(config)
		if err != nil {
			b.o.Log.Warn("expired sandboxes cannot be looked for", "config", config, "error", err)
		}
		for _, id := range ids {
			r, _, err := b.store.Look(config, id)
			if err != nil || r.Expires.IsZero() || r.Expires.After(b.o.Now()) || b.life.Err() != nil {
				continue
			}
			if err := b.store.Delete(b.life, config, id); err != nil && !errors.Is(err, store.ErrAbsent) {
				b.o.Log.Warn("an expired sandbox stays", "sandbox", id, "error", err)
			}
		}
	}
}
