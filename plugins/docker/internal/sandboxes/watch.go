package sandboxes

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// watch listens to what an engine says of a config's containers, so that one that
// runs need not be asked about before each use. While nothing is heard nothing is
// believed.
type watch struct {
	b *Backend
	c *config
	// live says that the engine's events arrive; seen counts them.
	live atomic.Bool
	seen atomic.Uint64
}

func newWatch(b *Backend, c *config) *watch { return &watch{b: b, c: c} }

// ends are the events after which a container may not run any more.
var ends = []events.Action{
	events.ActionDie, events.ActionStop, events.ActionKill, events.ActionPause, events.ActionDestroy, events.ActionRename,
	events.ActionRestart, events.ActionRemove,
}

// listenPause is between two attempts to listen.
const listenPause = 2 * time.Second

// keep listens until ctx ends.
func (w *watch) keep(ctx context.Context) {
	for ctx.Err() == nil {
		w.listen(ctx)
		w.live.Store(false)
		select {
		case <-ctx.Done():
		case <-time.After(listenPause):
		}
	}
}

func (w *watch) listen(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := []filters.KeyValuePair{filters.Arg("type", string(events.ContainerEventType))}
	for _, a := range ends {
		args = append(args, filters.Arg("event", string(a)))
	}
	heard, failed := w.c.eng.Client(ctx).Events(ctx, events.ListOptions{Filters: w.c.filter(args...)})
	// The engine answers the request before it listens for us; what happens within
	// that moment is found by asking, as without events.
	if w.c.eng.Ping(ctx) != nil {
		return
	}
	// What happened while nobody listened is not known.
	w.seen.Add(1)
	w.b.doubt(w.c)
	w.live.Store(true)
	w.c.pool.hurry()
	for {
		select {
		case m := <-heard:
			w.seen.Add(1)
			w.note(m)
		case <-failed:
			return
		}
	}
}

func (w *watch) note(m events.Message) {
	x := w.b.known(m.Actor.ID)
	if x == nil {
		return
	}
	switch m.Action {
	case events.ActionDestroy:
		w.b.forgetBox(m.Actor.ID)
	case events.ActionPause, events.ActionDie:
		x.disconnect()
	default:
		x.ready.Store(false)
	}
	if x.pooled {
		w.c.pool.hurry() // to replace it, if it still waited
	}
}

// doubt takes back what is known of a config's containers.
func (b *Backend) doubt(c *config) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, x := range b.boxes {
		if x.c == c {
			x.ready.Store(false)
		}
	}
}
