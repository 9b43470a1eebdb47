package sandboxes

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// pool keeps containers of a config's default image that are started, connected and
// nobody's, so that a new session need not wait for the engine. One goroutine fills
// it, one container at a time: whoever waits for the engine meanwhile comes first.
type pool struct {
	b    *Backend
	c    *config
	wake chan struct{}

	mu      sync.Mutex
	waiting []*warm
	closed  bool
}

// warm is one container that waits.
type warm struct {
	*box
	shape shape
	made  time.Time
}

const (
	// refillPause is how long filling rests after the engine refused.
	refillPause = 10 * time.Second
	// refillDelay is how long after a container was taken the next is made.
	refillDelay = 300 * time.Millisecond
	// warmAge is how long a container may wait: its image may have been replaced.
	warmAge = time.Hour
	// freshness is how often the pool looks whether its image is another by now.
	freshness = time.Minute
)

func newPool(b *Backend, c *config) *pool {
	return &pool{b: b, c: c, wake: make(chan struct{}, 1)}
}

// keep fills the pool until ctx ends.
func (p *pool) keep(ctx context.Context) {
	if p.c.set.Pool == 0 {
		return
	}
	said := ""
	for ctx.Err() == nil {
		wait := freshness
		said = p.report(ctx, p.fill(ctx), said)
		if said != "" {
			wait = refillPause
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-p.wake:
			p.hold(ctx)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// hold leaves the engine to whoever just got a container, while others wait still: his
// first program comes next.
func (p *pool) hold(ctx context.Context) {
	if p.missing() == p.c.set.Pool {
		return
	}
	timer := time.NewTimer(refillDelay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// report says why the pool is not full, once for each reason, and returns what it said.
func (p *pool) report(ctx context.Context, err error, said string) string {
	switch {
	case err == nil || ctx.Err() != nil:
		return ""
	case err.Error() != said:
		p.b.o.Log.Warn("no container waits for the next session", "config", p.c.id, "error", err)
	}
	return err.Error()
}

// fill replaces what was made from something else and makes what is missing.
func (p *pool) fill(ctx context.Context) error {
	s, err := p.b.resolve(ctx, "pool", p.c, backend.CreateSpec{})
	if err != nil {
		return err
	}
	p.expire(ctx, s)
	if err := p.check(ctx); err != nil {
		return err
	}
	for p.missing() > 0 && ctx.Err() == nil {
		x, err := p.b.make(ctx, "pool", p.c, s, nil)
		if err != nil {
			return err
		}
		x.pooled = true
		// Connecting is what takes longest of what is left.
		if _, err := x.agent(ctx, "pool"); err != nil {
			p.b.discardBox(ctx, p.c, x)
			return err
		}
		if err := x.verify(ctx, "pool"); err != nil {
			p.b.discardBox(ctx, p.c, x)
			return err
		}
		if !p.put(&warm{box: x, shape: s, made: p.b.o.Now()}) {
			p.b.discardBox(ctx, p.c, x)
		}
	}
	return ctx.Err()
}

func (p *pool) missing() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.c.set.Pool - len(p.waiting)
}

func (p *pool) put(w *warm) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.waiting = append(p.waiting, w)
	return true
}

// take returns a container for a spec, or nil.
func (p *pool) take(spec backend.CreateSpec) *box {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.waiting {
		s, err := p.c.shapeOf(spec, w.shape.Image, w.shape.Agent)
		if err != nil || s.digest() != w.shape.digest() {
			continue
		}
		p.waiting = append(p.waiting[:i:i], p.waiting[i+1:]...)
		p.hurry()
		return w.box
	}
	p.hurry()
	return nil
}

// hurry wakes the filling goroutine.
func (p *pool) hurry() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// expire removes what is old or was made from something else than now.
func (p *pool) expire(ctx context.Context, now shape) {
	p.mu.Lock()
	var old []*warm
	kept := p.waiting[:0:0]
	for _, w := range p.waiting {
		if w.shape.digest() != now.digest() || p.b.o.Now().Sub(w.made) > warmAge || p.b.known(w.container) != w.box {
			old = append(old, w)
			continue
		}
		kept = append(kept, w)
	}
	p.waiting = kept
	p.mu.Unlock()
	for _, w := range old {
		p.b.discardBox(ctx, p.c, w.box)
	}
}

// check removes what has stopped since.
func (p *pool) check(ctx context.Context) error {
	p.mu.Lock()
	waiting := slices.Clone(p.waiting)
	p.mu.Unlock()
	for _, w := range waiting {
		err := w.verify(ctx, "pool")
		if err == nil {
			continue
		}
		if kind := backend.KindOf(err); ctx.Err() != nil || kind != backend.KindConflict && kind != backend.KindNotFound {
			return err
		}
		if p.without(w) {
			p.b.discardBox(ctx, p.c, w.box)
		}
	}
	return nil
}

// without takes one out that nobody has taken yet.
func (p *pool) without(w *warm) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, w)
	if i < 0 {
		return false
	}
	p.waiting = slices.Delete(slices.Clone(p.waiting), i, i+1)
	return true
}

// drain ends everything that waits; nothing comes in any more. The plugin has little
// time to end: all go at once.
func (p *pool) drain() {
	p.mu.Lock()
	p.closed = true
	old := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, w := range old {
		wg.Go(func() { p.b.discardBox(context.Background(), p.c, w.box) })
	}
	wg.Wait()
}
