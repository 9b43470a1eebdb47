package sandboxes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/plugins/docker/internal/settings"
	"github.com/caisson-run/caisson/sdk/backend"
)

// cleanupTime bounds the removal of what was made half-way.
const cleanupTime = 30 * time.Second

// Create makes a sandbox, from a container that waits for one where there is such.
func (b *Backend) Create(ctx context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	const op = "Create"
	c, err := b.config(op, spec.Config)
	if err != nil {
		return backend.Sandbox{}, err
	}
	invalid := func(format string, args ...any) (backend.Sandbox, error) {
		return backend.Sandbox{}, engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectSandbox, format, args...)
	}
	if !sessionName.MatchString(spec.Session) {
		return invalid("session: must be 1 to 64 letters, digits, - and _")
	}
	if spec.Metadata.Session != spec.Session {
		return invalid("metadata.session: must be the session")
	}
	for k, v := range spec.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return invalid("env: %q is no variable", k)
		}
	}
	if _, err := c.shapeOf(spec, "", ""); err != nil {
		return backend.Sandbox{}, err
	}
	unlock, err := b.sessions.lock(ctx, c.name(spec.Session))
	if err != nil {
		return backend.Sandbox{}, err
	}
	defer unlock()
	if err := b.vacate(ctx, op, c, spec.Session); err != nil {
		return backend.Sandbox{}, err
	}
	if c.set.MaxSandboxes > 0 {
		// Held until the container has its name, so that two do not count the same.
		free, err := b.sessions.lock(ctx, "making "+c.id)
		if err != nil {
			return backend.Sandbox{}, err
		}
		defer free()
		if err := b.room(ctx, op, c); err != nil {
			return backend.Sandbox{}, err
		}
	}
	now := b.o.Now().UTC()
	r := record{Metadata: spec.Metadata, Env: spec.Env, Timeout: spec.Timeout, Created: now, Active: now}
	if spec.Timeout.Mode == backend.TimeoutAfter {
		r.Expires = now.Add(spec.Timeout.Duration)
	}
	x, err := b.obtain(ctx, op, c, spec, r)
	if err != nil {
		return backend.Sandbox{}, err
	}
	sb := backend.Sandbox{
		Ref: backend.Ref{Config: c.id, ID: spec.Session}, State: backend.StateRunning, RawState: container.StateRunning,
		Metadata: spec.Metadata, Created: r.Created, LastActive: r.Active, Expires: r.Expires,
	}
	x.touch()
	return sb, nil
}

// vacate refuses a session that has a sandbox, and removes one whose time is over.
func (b *Backend) vacate(ctx context.Context, op string, c *config, session string) error {
	short, cancel := engine.Short(ctx)
	defer cancel()
	got, err := c.eng.Client(short).ContainerInspect(short, c.name(session))
	if engine.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return engine.Fail(ctx, op, backend.SubjectSandbox, err)
	}
	conflict := engine.Errorf(backend.KindConflict, op, backend.SubjectSandbox, "session %q has a sandbox already", session)
	if strings.TrimPrefix(got.Name, "/") != c.name(session) {
		return nil
	}
	if got.Config == nil || got.Config.Labels[labelConfig] != c.id {
		return conflict
	}
	r, err := b.recordOf(ctx, op, c, got.ID, got.Config.Labels)
	if err != nil || !b.past(r) {
		return conflict
	}
	return engine.Fail(ctx, op, backend.SubjectSandbox, b.remove(ctx, c, got.ID, got.Config.Labels))
}

// room refuses more sandboxes than the config allows.
func (b *Backend) room(ctx context.Context, op string, c *config) error {
	all, err := b.containers(ctx, op, c)
	if err != nil {
		return err
	}
	n := 0
	for _, s := range all {
		if _, ok := sessionOf(c.id, s.Names); ok {
			n++
		}
	}
	if n >= c.set.MaxSandboxes {
		return engine.Errorf(backend.KindCapacity, op, backend.SubjectSandbox, "%d sandboxes are live, which is as many as max_sandboxes allows", n)
	}
	return nil
}

// obtain gets a container and makes it the session's, which is its last step.
func (b *Backend) obtain(ctx context.Context, op string, c *config, spec backend.CreateSpec, r record) (*box, error) {
	if poolable(spec) {
		for w := c.pool.take(spec); w != nil; w = c.pool.take(spec) {
			err := w.verify(ctx, op)
			if err == nil {
				return b.adoptOrDiscard(ctx, op, c, w, r)
			}
			b.discardBox(ctx, c, w)
			// One that stopped while it waited says nothing about the next.
			if kind := backend.KindOf(err); ctx.Err() != nil || kind != backend.KindConflict && kind != backend.KindNotFound {
				return nil, err
			}
		}
	}
	s, err := b.resolve(ctx, op, c, spec)
	if err != nil {
		return nil, err
	}
	if err := b.haveVolumes(ctx, op, c, s.Volumes); err != nil {
		return nil, err
	}
	w, err := b.make(ctx, op, c, s, recordLabels(r))
	if err != nil {
		return nil, err
	}
	return b.adoptOrDiscard(ctx, op, c, w, r)
}

func (b *Backend) adoptOrDiscard(ctx context.Context, op string, c *config, w *box, r record) (*box, error) {
	x, err := b.adopt(ctx, op, c, w, r)
	if err != nil {
		b.discardBox(ctx, c, w)
		return nil, err
	}
	return x, nil
}

// adopt makes a container that is nobody's the session's. Its record is kept before
// it has the name, so that whoever finds the name finds the record.
func (b *Backend) adopt(ctx context.Context, op string, c *config, x *box, r record) (*box, error) {
	r.Container = x.container
	if err := b.store.save(r); err != nil {
		return nil, engine.Errorf(backend.KindInternal, op, backend.SubjectSandbox, "%w", err)
	}
	before := c.watch.seen.Load()
	short, cancel := engine.Short(ctx)
	defer cancel()
	if err := c.eng.Client(short).ContainerRename(short, x.container, c.name(r.Metadata.Session)); err != nil {
		b.store.forget(x.container)
		return nil, engine.Fail(ctx, op, backend.SubjectSandbox, err)
	}
	b.nobodys.drop(x.first)
	x.own(r)
	// The renaming itself is heard of as well.
	x.settle(before)
	if x.pooled {
		b.tasks.Go(func() { b.file(c, x, r) })
	}
	return x, nil
}

// file writes the record of a container that waited into it, for other installations
// and for the day when this one's are lost. The sweep repeats what failed.
func (b *Backend) file(c *config, x *box, r record) {
	ctx, cancel := context.WithTimeout(b.life, cleanupTime)
	defer cancel()
	if err := b.putRecord(ctx, c, r); err != nil {
		if !engine.IsAbsent(err) && b.life.Err() == nil {
			b.o.Log.Warn("a sandbox's record is only on this machine for now", "container", x.container[:12])
		}
		return
	}
	x.filed.Store(true)
}

// resolve finds the image of a spec and the agent for it.
func (b *Backend) resolve(ctx context.Context, op string, c *config, spec backend.CreateSpec) (shape, error) {
	image := ""
	var err error
	if spec.Snapshot != "" {
		image, err = b.snapshotImage(ctx, op, c, spec.Snapshot)
	} else {
		name, ok := c.set.ImageOf(spec.Template)
		if !ok {
			e := engine.Errorf(backend.KindNotFound, op, backend.SubjectTemplate, "template %q is none of this config's images", spec.Template)
			e.Plane = backend.PlaneControl
			return shape{}, e
		}
		image, err = c.imageID(ctx, op, name)
	}
	if err != nil {
		return shape{}, err
	}
	return c.shapeOf(spec, image, b.agentFor(ctx, c))
}

// agentFor returns the digest of the agent for a config's engine, empty where
// containers have to do without.
func (b *Backend) agentFor(ctx context.Context, c *config) string {
	if c.set.Agent == settings.AgentOff {
		return ""
	}
	info, err := c.eng.Info(ctx)
	if err != nil {
		return ""
	}
	digest, _, err := b.agents.find(info.Architecture)
	if err != nil && c.warned.CompareAndSwap(false, true) {
		b.o.Log.Warn("containers work without the agent, slower", "config", c.id, "error", err)
	}
	return digest
}

// make creates, furnishes and starts a container that is nobody's yet. Nothing is left
// of it on failure.
func (b *Backend) make(ctx context.Context, op string, c *config, s shape, more map[string]string) (_ *box, err error) {
	fail := func(err error) error { return engine.Fail(ctx, op, backend.SubjectSandbox, err) }
	info, err := c.eng.Info(ctx)
	if err != nil {
		return nil, fail(err)
	}
	name := strings.ToLower(rand.Text()[:16])
	labels, socket := b.labelsOf(c, s, more), ""
	if s.Socket {
		labels[labelSocket] = name
		if socket, err = b.makeSocketDir(name); err != nil {
			return nil, fail(err)
		}
	}
	name = newPrefix + name
	cc, hc, nc := containerConfig(s, info, labels, socket)
	b.nobodys.add(name)
	// Whether the engine has made it is not known when the answer is lost: the name is.
	defer func() {
		if err != nil {
			b.discard(ctx, c, name)
			b.nobodys.drop(name)
			b.removeSocketDir(labels[labelSocket])
		}
	}()
	// An engine goes on making what nobody waits for any more: it is waited for.
	whole, cancel := engine.Short(context.WithoutCancel(ctx))
	made, err := c.eng.Client(whole).ContainerCreate(whole, cc, hc, nc, nil, name)
	cancel()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fail(err)
	}
	if err := b.furnish(ctx, c, made.ID, s); err != nil {
		return nil, fail(err)
	}
	if err := c.eng.Client(ctx).ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return nil, fail(err)
	}
	x := b.boxOf(c, made.ID, s.Agent, labels)
	x.first = name
	return x, nil
}

// names is a set of the first names of this process's containers.
type names struct {
	mu  sync.Mutex
	set map[string]bool
}

func (n *names) add(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		n.set = make(map[string]bool)
	}
	n.set[name] = true
}

func (n *names) drop(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.set, name)
}

func (n *names) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.set[name]
}

// discardBox removes a container that waited, or was to. The pool has let go of it.
func (b *Backend) discardBox(ctx context.Context, c *config, x *box) {
	b.nobodys.drop(x.first)
	b.discard(ctx, c, x.container)
}

// discard removes a container that is nobody's, by id or name, whether or not the
// caller is still there. What cannot be removed now the sweep finds.
func (b *Backend) discard(ctx context.Context, c *config, container string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	got, err := c.eng.Client(ctx).ContainerInspect(ctx, container)
	if engine.IsAbsent(err) {
		return
	}
	if err == nil && got.Config != nil && got.Config.Labels[labelMaker] == b.owner.maker {
		err = b.remove(ctx, c, got.ID, got.Config.Labels)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		b.o.Log.Warn("a container was left behind; the sweep will find it", "error", fmt.Errorf("remove: %w", engine.Fail(ctx, "discard", backend.SubjectSandbox, err)))
	}
}
