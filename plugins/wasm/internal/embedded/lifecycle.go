package embedded

import (
	"context"
	"errors"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Create makes a sandbox: a directory that is its session's, empty or as a snapshot
// was.
func (b *Backend) Create(ctx context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
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
	r := store.Record{Metadata: spec.Metadata, Env: spec.Env, Limits: spec.Limits}
	if spec.Timeout.Mode == backend.TimeoutAfter {
		r.Expires = b.o.Now().Add(spec.Timeout.Duration).UTC()
	}
	if c.MaxSandboxes > 0 {
		b.making.Lock()
		defer b.making.Unlock()
		n, err := b.store.Count(spec.Config)
		if err != nil {
			return backend.Sandbox{}, sandboxError(op, err)
		}
		if n >= c.MaxSandboxes {
			return backend.Sandbox{}, backend.Errorf(backend.KindCapacity, op, "%d sandboxes are live, which is as many as max_sandboxes allows", n)
		}
	}
	sb, err := b.store.Create(ctx, spec.Config, spec.Session, r, spec.Snapshot)
	if err != nil {
		return backend.Sandbox{}, sandboxError(op, err)
	}
	defer sb.Release()
	active, expires := sb.Active()
	return sandbox(sb.Record, active, expires), nil
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
	case spec.Template != "":
		return no("template: the embedded backend has none; a snapshot is one")
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
	active, expires := sb.Active()
	return sandbox(sb.Record, active, expires), nil
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
	if err == nil && b.past(r.Expires) {
		err = store.ErrAbsent
	}
	if err != nil {
		return backend.Sandbox{}, sandboxError(op, err)
	}
	return sandbox(r, active, r.Expires), nil
}

// past reports whether a sandbox is over: it is absent from that moment on, whenever
// its files are removed.
func (b *Backend) past(expires time.Time) bool {
	return !expires.IsZero() && !expires.After(b.o.Now())
}

func sandbox(r store.Record, active, expires time.Time) backend.Sandbox {
	return backend.Sandbox{
		Ref:   backend.Ref{Config: r.Config, ID: r.ID},
		State: backend.StateRunning, Metadata: r.Metadata,
		Created: r.Created, LastActive: active.UTC(), Expires: expires,
	}
}

// List returns what matches.
func (b *Backend) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	const op = "List"
	if _, err := b.config(op, f.Config); err != nil {
		return nil, err
	}
	var out []backend.Sandbox
	look := func(id string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		sb, err := b.describe(op, backend.Ref{Config: f.Config, ID: id})
		switch {
		case backend.ProvesGone(err):
		case err != nil:
			// One damaged record must not hide the others.
			b.o.Log.Error("sandbox cannot be read", "sandbox", id, "error", err)
		case f.Matches(sb):
			out = append(out, sb)
		}
		return nil
	}
	var err error
	if f.Session != "" {
		err = look(f.Session)
	} else {
		err = b.store.IDs(f.Config, look)
	}
	if err != nil {
		return nil, sandboxError(op, err)
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
	_, expires := sb.Active()
	at := b.o.Now().Add(ttl).UTC()
	if expires.IsZero() || expires.After(at) {
		return expires, nil
	}
	if err := sb.SetExpires(at); err != nil {
		return time.Time{}, sandboxError(op, err)
	}
	return at, nil
}

// use takes a sandbox into use for one call, which counts as activity.
func (b *Backend) use(op string, ref backend.Ref) (*store.Sandbox, error) {
	if _, err := b.config(op, ref.Config); err != nil {
		return nil, err
	}
	sb, err := b.store.Get(ref.Config, ref.ID)
	if err != nil {
		return nil, sandboxError(op, err)
	}
	if _, expires := sb.Active(); b.past(expires) {
		sb.Release()
		return nil, sandboxError(op, store.ErrAbsent)
	}
	sb.Touch()
	return sb, nil
}
