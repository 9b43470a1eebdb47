package sandboxes

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentclient"
	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/plugins/docker/internal/plain"
	"github.com/caisson-run/caisson/sdk/backend"
)

// box is a container that this process works with. It holds nothing that could not be
// found again: the connection to the agent, and when it was used.
type box struct {
	b *Backend
	c *config
	// container is its id at the engine.
	container string
	// build is the digest of the agent that belongs into it, empty without one;
	// placed says that its program is there.
	build  string
	placed bool
	user   string
	socket string // the directory on this machine that is mounted, if any

	// first is the name that it was made under, if this process made it.
	first string
	// pooled says that it waited for its session, and filed that its record is in it.
	pooled bool
	filed  atomic.Bool

	others atomic.Int64
	pipe   atomic.Pointer[engine.Pipe] // the last one to the agent
	active atomic.Int64                // unix nanoseconds of the last use, 0 for none
	// ready says that the container runs, as far as the engine told since.
	ready atomic.Bool

	// opening is held while a connection is made.
	opening chan struct{}

	mu      sync.Mutex
	rec     record // whose it is; zero while it waits
	client  *agentclient.Client
	without time.Time // until when the agent is not tried again
	closed  bool
}

// boxOf returns the handle of a container, made if need be. build is the agent that
// belongs into it, if any.
func (b *Backend) boxOf(c *config, id, build string, labels map[string]string) *box {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.boxes[id]; x != nil && x.c == c {
		return x
	}
	x := &box{
		b: b, c: c, container: id, build: build, placed: labels[labelAgent] == build, user: labels[labelUser],
		opening: make(chan struct{}, 1),
	}
	if name := labels[labelSocket]; name != "" && filepath.Base(name) == name && labels[labelOwner] == b.owner.installation {
		x.socket = b.socketDir(name)
	}
	b.boxes[id] = x
	return x
}

// known returns the handle of a container, if there is one.
func (b *Backend) known(id string) *box {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.boxes[id]
}

// forgetBox closes the handle of a container that is gone, or may be.
func (b *Backend) forgetBox(id string) {
	b.mu.Lock()
	x := b.boxes[id]
	delete(b.boxes, id)
	if x != nil {
		maps.DeleteFunc(x.c.bySession, func(_ string, of *box) bool { return of == x })
	}
	b.mu.Unlock()
	if x != nil {
		x.close()
	}
}

func (b *Backend) forgetBoxes(c *config) {
	b.mu.RLock()
	var of []string
	for id, x := range b.boxes {
		if x.c == c {
			of = append(of, id)
		}
	}
	b.mu.RUnlock()
	for _, id := range of {
		b.forgetBox(id)
	}
}

func (x *box) close() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.disconnect()
}

// disconnect ends the connection; the next use makes another.
func (x *box) disconnect() {
	x.ready.Store(false)
	x.mu.Lock()
	cl := x.client
	x.client, x.without = nil, time.Time{}
	x.mu.Unlock()
	if cl != nil {
		_ = cl.Close()
	}
}

func (x *box) touch() { x.active.Store(x.b.o.Now().UnixNano()) }

func (x *box) lastUse() time.Time {
	if n := x.active.Load(); n != 0 {
		return time.Unix(0, n).UTC()
	}
	return time.Time{}
}

// own makes the container a session's.
func (x *box) own(r record) {
	x.mu.Lock()
	x.rec = r
	x.mu.Unlock()
	x.b.mu.Lock()
	defer x.b.mu.Unlock()
	if x.b.boxes[x.container] == x { // not closed meanwhile
		x.c.bySession[r.Metadata.Session] = x
	}
}

func (x *box) record() record {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rec
}

// plain works in the container without the agent.
func (x *box) plain() *plain.Box {
	r := x.record()
	return &plain.Box{
		Engine: x.c.eng, Container: x.container, ID: r.Metadata.Session, User: x.user, Env: r.Env,
		Spool: x.b.o.Dir, Others: &x.others,
	}
}

// standing asks the engine how the container is: nil when it runs, otherwise the
// error that this means for op.
func (x *box) standing(ctx context.Context, op string) error {
	short, cancel := engine.Short(ctx)
	defer cancel()
	got, err := x.c.eng.Client(short).ContainerInspect(short, x.container)
	if engine.IsAbsent(err) {
		x.b.forgetBox(x.container)
		return engine.Absent(op, x.record().Metadata.Session)
	}
	if err != nil {
		return engine.Fail(ctx, op, backend.SubjectSandbox, err)
	}
	if got.State == nil || stateOf(got.State.Status) != backend.StateRunning {
		x.disconnect()
		return notRunning(op, x.record().Metadata.Session)
	}
	return nil
}

// verify makes sure that the container runs: at once where the engine's events say
// so, else by asking.
func (x *box) verify(ctx context.Context, op string) error {
	if x.c.watch.live.Load() && x.ready.Load() {
		return nil
	}
	before := x.c.watch.seen.Load()
	if err := x.standing(ctx, op); err != nil {
		return err
	}
	x.settle(before)
	return nil
}

func notRunning(op, id string) error {
	return engine.Errorf(backend.KindConflict, op, backend.SubjectSandbox, "sandbox %q is stopped or paused: Connect wakes it", id)
}

// fault makes of an agent's error what it means: a connection that broke says
// nothing, the engine knows why.
func (x *box) fault(ctx context.Context, op string, err error) error {
	if err == nil || ctx.Err() != nil || !errors.Is(err, agentclient.ErrLost) {
		return named(op, err)
	}
	if standing := x.standing(ctx, op); standing != nil {
		return standing
	}
	e := engine.Errorf(backend.KindUnavailable, op, backend.SubjectSandbox, "the connection into the sandbox broke; try again")
	e.Plane, e.RetryAfter = backend.PlaneData, time.Second
	return e
}

// named gives an agent's error the provider's name.
func named(op string, err error) error {
	var e *backend.Error
	if errors.As(err, &e) && e.Provider == "" {
		e.Provider = Name
		if e.Op == "" {
			e.Op = op
		}
	}
	return err
}
