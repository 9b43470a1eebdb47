package sandboxes

import (
	"context"
	"errors"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

// look finds a session's container by its name, with its record. Nothing is woken.
// One whose time is over, or that is being removed, is absent.
func (b *Backend) look(ctx context.Context, op string, c *config, session string) (container.InspectResponse, record, error) {
	var none container.InspectResponse
	if !sessionName.MatchString(session) {
		return none, record{}, engine.Absent(op, strings.ToValidUTF8(session[:min(len(session), 64)], "?"))
	}
	short, cancel := engine.Short(ctx)
	got, err := c.eng.Client(short).ContainerInspect(short, c.name(session))
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
	// The file, where there is one, is newer than the label.
	r, ok := decodeRecord([]byte(labels[labelRecord]), id)
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
