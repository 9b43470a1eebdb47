package sandboxes

import (
	"context"
	"errors"
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

// look finds a session's container by its name, with its record. Nothing is woken.
// One whose time is over, or that is being removed, is absent.
func (b *Backend) look(ctx context.Context, op string, c *config, session string) (container.InspectResponse, record, error) {
	var none container.InspectResponse
	if !sessionName.MatchString(session) {
		return none, record{}, engine.Absent(op, strings.ToValidUTF8(session[:min(len(session), 64)], "?"))
	}
	short, cancel := engine.Short(ctx)
	got, err := c.eng.API.ContainerInspect(short, c.name(session))
	cancel()
	if engine.IsAbsent(err) {
		return none, record{}, engine.Absent(op, session)
	}
	if err != nil {
		return none, record{}, engine.Fail(ctx, op, backend.SubjectSandbox, err)
	}
	// The name could be another's: a name is looked up as an id's beginning too.
	if got.ContainerJSONBase == nil || got.Config == nil || strings.TrimPrefix(got.Name, "/") != c.name(session) ||
		got.Config.Labels[labelConfig] != c.id || got.State == nil || stateOf(got.State.Status) == backend.StateTerminated {
		return none, record{}, engine.Absent(op, session)
	}
	r, err := b.recordOf(ctx, op, c, got.ID, got.Config.Labels)
	if err != nil {
		return none, record{}, err
	}
	if r.Metadata.Session != session || b.past(r) {
		return none, record{}, engine.Absent(op, session)
	}
	return got, r, nil
}

// past reports whether a sandbox is over: absent from that moment on, whenever its
// container is removed.
func (b *Backend) past(r record) bool {
	return !r.Expires.IsZero() && !r.Expires.After(b.o.Now())
}

// recordOf finds a container's record: what this process knows, what this machine
// has kept, the label, the file in the container. A container without one is no
// sandbox.
func (b *Backend) recordOf(ctx context.Context, op string, c *config, id string, labels map[string]string) (record, error) {
	if x := b.known(id); x != nil {
		if r := x.record(); r.Metadata.Session != "" {
			return r, nil
		}
	}
	if r, ok := b.store.load(id); ok {
		return r, nil
	}
	r, ok := decodeRecord([]byte(labels[labelRecord]), id)
	// The file is newer than the label where somebody moved the sandbox's end.
	if ok && labels[labelOwner] == b.owner.installation {
		return r, nil
	}
	ctx, cancel := engine.Short(ctx)
	defer cancel()
	filed, err := readRecord(ctx, c, id)
	switch {
	case err == nil:
		return filed, nil
	case ok:
		return r, nil
	case engine.IsAbsent(err), errors.Is(err, errRecord):
		return record{}, engine.Errorf(backend.KindInternal, op, backend.SubjectSandbox, "a container has the name of a sandbox and no record: somebody else made it")
	}
	return record{}, engine.Fail(ctx, op, backend.SubjectSandbox, err)
}

// describe makes of a container what the contract calls a sandbox.
func (b *Backend) describe(c *config, id, status string, labels map[string]string, r record) backend.Sandbox {
	sb := backend.Sandbox{
		Ref:   backend.Ref{Config: c.id, ID: r.Metadata.Session},
		State: stateOf(status), RawState: status, Metadata: r.Metadata,
		Created: r.Created, Expires: r.Expires,
	}
	// What another installation's sandboxes were used for last, only that knows.
	if labels[labelOwner] == b.owner.installation {
		sb.LastActive = r.Active
		if x := b.known(id); x != nil && x.lastUse().After(sb.LastActive) {
			sb.LastActive = x.lastUse()
		}
		if sb.LastActive.Before(sb.Created) {
			sb.LastActive = sb.Created
		}
	}
	return sb
}

// box returns the handle of a container that was looked at.
func (b *Backend) box(ctx context.Context, c *config, got container.InspectResponse, r record) *box {
	build := ""
	if got.Config.Labels[labelAgent] != "" {
		if info, err := c.eng.Info(ctx); err == nil {
			build, _, _ = b.agents.find(info.Architecture)
		}
	}
	x := b.boxOf(c, got.ID, build, got.Config.Labels)
	x.own(r)
	return x
}

// use returns the container of a sandbox for one call, which needs it running. It
// counts as activity. The engine is asked only where its events do not say that the
// container runs.
func (b *Backend) use(ctx context.Context, op string, ref backend.Ref) (*box, error) {
	c, err := b.config(op, ref.Config)
	if err != nil {
		return nil, err
	}
	if x := b.running(c, ref.ID); x != nil {
		x.touch()
		return x, nil
	}
	before := c.watch.seen.Load()
	got, r, err := b.look(ctx, op, c, ref.ID)
	if err != nil {
		return nil, err
	}
	if stateOf(got.State.Status) != backend.StateRunning {
		return nil, notRunning(op, ref.ID)
	}
	x := b.box(ctx, c, got, r)
	x.settle(before)
	x.touch()
	return x, nil
}

// settle notes that the container was seen running, unless something was heard since.
func (x *box) settle(before uint64) {
	x.ready.Store(x.c.watch.live.Load() && x.c.watch.seen.Load() == before)
}

// running is the handle of a sandbox that is known to run.
func (b *Backend) running(c *config, session string) *box {
	if !c.watch.live.Load() {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	x := c.bySession[session]
	if x == nil || !x.ready.Load() || b.past(x.record()) {
		return nil
	}
	return x
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
	got, err := c.eng.API.ContainerInspect(ctx, id)
	if engine.IsAbsent(err) {
		return engine.Absent(op, session)
	}
	if err != nil {
		return engine.Fail(ctx, op, backend.SubjectSandbox, err)
	}
	switch got.State.Status {
	case container.StatePaused:
		err = c.eng.API.ContainerUnpause(ctx, id)
		if err != nil && strings.Contains(err.Error(), "is not paused") {
			err = nil
		}
	case container.StateExited, container.StateCreated:
		err = c.eng.API.ContainerStart(ctx, id, container.StartOptions{})
	}
	if err != nil {
		return engine.Fail(ctx, op, backend.SubjectSandbox, err)
	}
	// An engine's late word of a pause can overwrite its own of the resumption.
	for range 20 {
		got, err = c.eng.API.ContainerInspect(ctx, id)
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
	all, err := c.eng.API.ContainerList(short, container.ListOptions{All: true, Filters: c.filter()})
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
	got, err := c.eng.API.ContainerInspect(short, c.name(ref.ID))
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
	err := c.eng.API.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
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
		if _, err := c.eng.API.ContainerInspect(ctx, id); err != nil {
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
	err = c.eng.API.ContainerPause(ctx, got.ID)
	if err != nil && strings.Contains(err.Error(), "is already paused") {
		err = nil
	}
	return engine.Fail(ctx, op, backend.SubjectSandbox, err)
}
