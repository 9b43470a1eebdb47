package sandboxes

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

// firstSweep is how long after the start the first sweep comes: what a process that
// was killed left should not wait longer, and configs are open by then.
const firstSweep = 5 * time.Second

// keepSwept sweeps until the backend closes.
func (b *Backend) keepSwept() {
	timer := time.NewTimer(min(b.o.SweepEvery, firstSweep))
	defer timer.Stop()
	for {
		select {
		case <-b.life.Done():
			return
		case <-timer.C:
		}
		b.sweep(b.life)
		timer.Reset(b.o.SweepEvery)
	}
}

// sweep goes through every open config.
func (b *Backend) sweep(ctx context.Context) {
	b.mu.RLock()
	open := make([]*config, 0, len(b.configs))
	for _, c := range b.configs {
		open = append(open, c)
	}
	b.mu.RUnlock()
	there := make(map[string]bool)
	sockets := make(map[string]bool)
	complete := len(open) > 0
	for _, c := range open {
		all, err := b.containers(ctx, "sweep", c)
		if err != nil {
			if ctx.Err() == nil {
				b.o.Log.Warn("sandboxes cannot be looked for", "config", c.id, "error", err)
			}
			complete = false
			continue
		}
		b.sweepImages(ctx, c)
		for _, s := range all {
			there[s.ID] = true
			sockets[s.Labels[labelSocket]] = true
			if s.Labels[labelOwner] == b.owner.installation {
				b.sweepOne(ctx, c, s)
			}
		}
	}
	if complete && ctx.Err() == nil {
		b.sweepFiles(there, sockets)
	}
}

// sweepOne ends one of this installation's containers when it is half made and its
// maker is dead, or when one of its clocks has run out. Other installations' are
// theirs.
func (b *Backend) sweepOne(ctx context.Context, c *config, s container.Summary) {
	if isNew(s.Names) {
		b.sweepNew(ctx, c, s)
		return
	}
	session, ok := sessionOf(c.id, s.Names)
	if !ok {
		return
	}
	r, err := b.recordOf(ctx, "sweep", c, s.ID, s.Labels)
	if err != nil {
		return // in doubt it stays
	}
	// Clocks are looked at again under the lock: it may be being used right now.
	unlock, err := b.sessions.lock(ctx, c.name(session))
	if err != nil {
		return
	}
	defer unlock()
	if r, err = b.recordOf(ctx, "sweep", c, s.ID, s.Labels); err != nil {
		return
	}
	x := b.known(s.ID)
	if x != nil {
		x.askAgent(ctx)
	}
	if x != nil && x.lastUse().After(r.Active) {
		r.Active = x.lastUse()
		_ = b.store.save(r) // for the next process
		x.own(r)
	}
	if why := b.due(ctx, c, s, r); why != "" {
		b.endOne(ctx, c, s, why)
		return
	}
	if x != nil && x.pooled && !x.filed.Load() {
		b.file(c, x, r)
	}
}

// sweepNew ends a container that is nobody's when its maker is dead, or has lost it.
func (b *Backend) sweepNew(ctx context.Context, c *config, s container.Summary) {
	maker := s.Labels[labelMaker]
	switch {
	case maker != b.owner.maker && !b.owner.lives(maker):
		b.endOne(ctx, c, s, "half made by a process that is gone")
	case maker == b.owner.maker && !slices.ContainsFunc(s.Names, func(n string) bool { return b.nobodys.has(strings.TrimPrefix(n, "/")) }):
		// It was made although nobody heard of it, or has become a session's since it
		// was listed: its name tells.
		if got, err := c.eng.Client(ctx).ContainerInspect(ctx, s.ID); err == nil && isNew([]string{got.Name}) {
			b.endOne(ctx, c, s, "made for a caller who had left")
		}
	}
}

// leaveNothing removes what this process has made of a config and nobody has.
func (b *Backend) leaveNothing(c *config) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	all, err := b.containers(ctx, "close", c)
	if err != nil {
		return // the next process finds it
	}
	for _, s := range all {
		if s.Labels[labelMaker] == b.owner.maker && isNew(s.Names) {
			b.sweepNew(ctx, c, s)
		}
	}
}

// askAgent takes over what the agent knows of the last use, where it is connected: a
// program that runs by itself is one.
func (x *box) askAgent(ctx context.Context) {
	cl, _ := x.current()
	if cl == nil || !x.ready.Load() {
		return
	}
	ctx, cancel := engine.Short(ctx)
	defer cancel()
	if used, err := cl.LastActive(ctx); err == nil && used.After(x.lastUse()) {
		x.active.Store(min(used.UnixNano(), x.b.o.Now().UnixNano()))
	}
}

// due names the clock that a sandbox outlived, or is empty. The last use is the
// latest that anybody knows of: this process, the record, the agent, and the engine,
// which says when a container was started.
func (b *Backend) due(ctx context.Context, c *config, s container.Summary, r record) string {
	now := b.o.Now()
	over := func(since time.Time, seconds int64) bool {
		return seconds > 0 && now.Sub(since) >= time.Duration(seconds)*time.Second
	}
	switch {
	case b.past(r):
		return "expired"
	case r.Created.IsZero():
		return ""
	case over(r.Created, c.set.TTLSeconds):
		return "ttl"
	case !over(latest(r.Created, r.Active), c.set.IdleSeconds):
		return ""
	}
	short, cancel := engine.Short(ctx)
	defer cancel()
	got, err := c.eng.Client(short).ContainerInspect(short, s.ID)
	if err != nil || got.State == nil {
		return ""
	}
	if stateOf(got.State.Status) == backend.StateRunning {
		started, _ := time.Parse(time.RFC3339Nano, got.State.StartedAt)
		if !over(started, c.set.IdleSeconds) {
			return ""
		}
		x := b.box(ctx, c, got, r)
		if cl, err := x.agent(short, "sweep"); err != nil {
			return ""
		} else if cl != nil {
			if used, err := cl.LastActive(short); err != nil || !over(used, c.set.IdleSeconds) {
				return ""
			}
		}
		if x.others.Load() > 0 || !over(latest(x.lastUse(), r.Created), c.set.IdleSeconds) {
			return ""
		}
	}
	return "idle"
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (b *Backend) endOne(ctx context.Context, c *config, s container.Summary, why string) {
	ctx, cancel := context.WithTimeout(ctx, cleanupTime)
	defer cancel()
	if err := b.remove(ctx, c, s.ID, s.Labels); err != nil {
		if ctx.Err() == nil {
			b.o.Log.Warn("a container cannot be removed", "container", s.ID[:12], "error", engine.Fail(ctx, "sweep", backend.SubjectSandbox, err))
		}
		return
	}
	b.o.Log.Info("container ended", "container", s.ID[:12], "config", c.id, "why", why)
}

// sweepFiles removes what is on this machine for containers that no engine has. Where
// a config is not open or an engine did not answer nothing is known: nothing is
// removed then but what is very old.
func (b *Backend) sweepFiles(there, sockets map[string]bool) {
	old := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && b.o.Now().Sub(info.ModTime()) > recordAge
	}
	for _, id := range b.store.all() {
		if !there[id] && old(filepath.Join(b.store.dir, id)) {
			b.store.forget(id)
		}
	}
	dirs, _ := os.ReadDir(filepath.Join(b.o.Dir, "s"))
	for _, d := range dirs {
		if !sockets[d.Name()] && old(b.socketDir(d.Name())) {
			b.removeSocketDir(d.Name())
		}
	}
}

// recordAge is how long what belongs to no container is kept: another config, or
// another generation of this plugin, may know more.
const recordAge = 48 * time.Hour
