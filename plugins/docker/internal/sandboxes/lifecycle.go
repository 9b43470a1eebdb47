package sandboxes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

// stateOf maps an engine's word
// (https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerInspect).
func stateOf(status container.ContainerState) backend.State {
	switch status {
	case container.StateRunning:
		return backend.StateRunning
	case container.StatePaused, container.StateExited:
		return backend.StatePaused
	case container.StateCreated, container.StateRestarting:
		return backend.StateTransitioning
	case container.StateRemoving, container.StateDead:
		return backend.StateTerminated
	}
	return backend.StateUnknown
}

// Get describes a sandbox.
func (b *Backend) Get(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	const op = "Get"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return backend.Sandbox{}, err
	}
	got, r, err := b.look(ctx, op, c, ref.ID)
	if err != nil {
		return backend.Sandbox{}, err
	}
	return b.describe(c, got.ID, got.State.Status, got.Config.Labels, r), nil
}

// Connect wakes a sandbox: paused or stopped, its files are there.
func (b *Backend) Connect(ctx context.Context, ref backend.Ref) (backend.Sandbox, error) {
	const op = "Connect"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return backend.Sandbox{}, err
	}
	before := c.watch.seen.Load()
	got, r, err := b.look(ctx, op, c, ref.ID)
	if err != nil {
		return backend.Sandbox{}, err
	}
	if stateOf(got.State.Status) != backend.StateRunning {
		unlock, err := b.sessions.lock(ctx, c.name(ref.ID))
		if err != nil {
			return backend.Sandbox{}, err
		}
		defer unlock()
		if err := b.wake(ctx, c, got.ID, ref.ID); err != nil {
			return backend.Sandbox{}, err
		}
		before = c.watch.seen.Load()
		if got, r, err = b.look(ctx, op, c, ref.ID); err != nil {
			return backend.Sandbox{}, err
		}
	}
	x := b.box(ctx, c, got, r)
	if stateOf(got.State.Status) == backend.StateRunning {
		x.settle(before)
	}
	x.touch()
	return b.describe(c, got.ID, got.State.Status, got.Config.Labels, r), nil
}

// wake starts or resumes a container. Whoever else did so meanwhile has done it.
func (b *Backend) wake(ctx context.Context, c *config, id, session string) error {
	const op = "Connect"
	got, err := c.eng.Client(ctx).ContainerInspect(ctx, id)
	if engine.IsAbsent(err) {
		return engine.Absent(op, session)
	}
	if err != nil {
		return engine.Fail(ctx, op, backend.SubjectSandbox, err)
	}
	switch got.State.Status {
	case container.StatePaused:
		err = c.eng.Client(ctx).ContainerUnpause(ctx, id)
		if err != nil && strings.Contains(err.Error(), "is not paused") {
			err = nil
		}
	case container.StateExited, container.StateCreated:
		err = c.eng.Client(ctx).ContainerStart(ctx, id, container.StartOptions{})
	}
	if err != nil {
		return engine.Fail(ctx, op, backend.SubjectSandbox, err)
	}
	// An engine's late word of a pause can overwrite its own of the resumption.
	for range 20 {
		got, err = c.eng.Client(ctx).ContainerInspect(ctx, id)
		if err != nil {
			return engine.Fail(ctx, op, backend.SubjectSandbox, err)
		}
		if stateOf(got.State.Status) == backend.StateRunning {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return engine.Errorf(backend.KindUnavailable, op, backend.SubjectSandbox, "the container was started and does not run: %s", got.State.Status)
}

// List finds every sandbox of a config that matches, of all installations.
func (b *Backend) List(ctx context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	const op = "List"
	c, err := b.config(op, f.Config)
	if err != nil {
		return nil, err
	}
	all, err := b.containers(ctx, op, c)
	if err != nil {
		return nil, err
	}
	var out []backend.Sandbox
	for _, s := range all {
		session, ok := sessionOf(c.id, s.Names)
		if !ok || f.Session != "" && f.Session != session || stateOf(s.State) == backend.StateTerminated {
			continue
		}
		r, err := b.recordOf(ctx, op, c, s.ID, s.Labels)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil && backend.KindOf(err) == backend.KindUnavailable:
			return nil, err // half a listing would be a lie
		case err != nil:
			b.o.Log.Error("a container's record cannot be read", "container", s.ID[:12], "error", err)
			continue
		}
		sb := b.describe(c, s.ID, s.State, s.Labels, r)
		if r.Metadata.Session == session && !b.past(r) && f.Matches(sb) {
			out = append(out, sb)
		}
	}
	return out, nil
}

// containers lists what the engine has of a config, in every state.
func (b *Backend) containers(ctx context.Context, op string, c *config) ([]container.Summary, error) {
	short, cancel := engine.Short(ctx)
	defer cancel()
	all, err := c.eng.Client(short).ContainerList(short, container.ListOptions{All: true, Filters: c.filter()})
	return all, engine.Fail(ctx, op, backend.SubjectConfig, err)
}

// Delete ends a sandbox: its container, its anonymous volumes and its record.
func (b *Backend) Delete(ctx context.Context, ref backend.Ref) error {
	const op = "Delete"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return err
	}
	if !sessionName.MatchString(ref.ID) {
		return nil
	}
	unlock, err := b.sessions.lock(ctx, c.name(ref.ID))
	if err != nil {
		return err
	}
	defer unlock()
	short, cancel := engine.Short(ctx)
	got, err := c.eng.Client(short).ContainerInspect(short, c.name(ref.ID))
	cancel()
	switch {
	case engine.IsAbsent(err):
		return nil
	case err != nil:
		return engine.Fail(ctx, op, backend.SubjectSandbox, err)
	case got.Config == nil || got.Config.Labels[labelConfig] != c.id || strings.TrimPrefix(got.Name, "/") != c.name(ref.ID):
		return nil // somebody else's
	}
	return engine.Fail(ctx, op, backend.SubjectSandbox, b.remove(ctx, c, got.ID, got.Config.Labels))
}

// remove ends a container and all that belongs to it. One that is absent, or that
// somebody else is removing, is removed.
func (b *Backend) remove(ctx context.Context, c *config, id string, labels map[string]string) error {
	b.forgetBox(id)
	err := c.eng.Client(ctx).ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if err != nil && strings.Contains(err.Error(), "is already in progress") {
		err = b.awaitGone(ctx, c, id)
	}
	if err != nil && !engine.IsAbsent(err) {
		return fmt.Errorf("remove the container: %w", err)
	}
	b.store.forget(id)
	if labels[labelOwner] == b.owner.installation {
		b.removeSocketDir(labels[labelSocket])
	}
	return nil
}

// awaitGone waits until somebody else has removed a container.
func (b *Backend) awaitGone(ctx context.Context, c *config, id string) error {
	ctx, cancel := engine.Short(ctx)
	defer cancel()
	for {
		if _, err := c.eng.Client(ctx).ContainerInspect(ctx, id); err != nil {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// KeepAlive moves a sandbox's own end away. It wakes nothing.
func (b *Backend) KeepAlive(ctx context.Context, ref backend.Ref, ttl time.Duration) (time.Time, error) {
	const op = "KeepAlive"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return time.Time{}, err
	}
	if ttl < 0 {
		return time.Time{}, engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectSandbox, "ttl: must not be negative")
	}
	unlock, err := b.sessions.lock(ctx, c.name(ref.ID))
	if err != nil {
		return time.Time{}, err
	}
	defer unlock()
	got, r, err := b.look(ctx, op, c, ref.ID)
	if err != nil {
		return time.Time{}, err
	}
	now := b.o.Now().UTC()
	r.Active = now
	if at := now.Add(ttl); !r.Expires.IsZero() && r.Expires.Before(at) {
		r.Expires = at
		// Other installations read it in the container.
		if err := b.putRecord(ctx, c, r); err != nil {
			return time.Time{}, engine.Fail(ctx, op, backend.SubjectSandbox, err)
		}
	}
	if err := b.store.save(r); err != nil {
		return time.Time{}, engine.Errorf(backend.KindInternal, op, backend.SubjectSandbox, "%w", err)
	}
	x := b.box(ctx, c, got, r)
	x.touch()
	return r.Expires, nil
}

// Pause freezes a sandbox with its memory. A paused or stopped one stays as it is.
func (b *Backend) Pause(ctx context.Context, ref backend.Ref) error {
	const op = "Pause"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return err
	}
	unlock, err := b.sessions.lock(ctx, c.name(ref.ID))
	if err != nil {
		return err
	}
	defer unlock()
	got, _, err := b.look(ctx, op, c, ref.ID)
	if err != nil {
		return err
	}
	if stateOf(got.State.Status) == backend.StatePaused {
		return nil
	}
	if x := b.known(got.ID); x != nil {
		x.disconnect()
	}
	err = c.eng.Client(ctx).ContainerPause(ctx, got.ID)
	if err != nil && strings.Contains(err.Error(), "is already paused") {
		err = nil
	}
	return engine.Fail(ctx, op, backend.SubjectSandbox, err)
}
