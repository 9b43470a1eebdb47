package embedded

import (
	"context"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
)

// sweepEvery is how often sandboxes past one of their clocks are removed. Past
// their own end they are absent from that moment on; this is about their files.
const sweepEvery = time.Minute

// keepSwept sweeps until the backend closes.
func (b *Backend) keepSwept() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		b.sweep(b.life)
		select {
		case <-b.life.Done():
			return
		case <-tick.C:
		}
	}
}

// sweep removes what is over, of every config that has sandboxes, and what dead
// processes left. Configs that are not open have no clocks of their own here, but
// the ends that their sandboxes were made with still hold.
func (b *Backend) sweep(ctx context.Context) {
	if err := b.store.Clean(ctx); err != nil && ctx.Err() == nil {
		b.o.Log.Warn("what was deleted is still there", "error", err)
	}
	configs, err := b.store.Configs()
	if err != nil {
		b.o.Log.Warn("sandboxes cannot be looked for", "error", err)
	}
	for _, id := range configs {
		b.mu.RLock()
		c := b.configs[id]
		b.mu.RUnlock()
		r, err := b.store.Sweep(ctx, id, b.due(c))
		if err != nil && ctx.Err() == nil {
			b.o.Log.Warn("sweep incomplete", "config", id, "error", err)
		}
		if r.Damaged > 0 {
			b.o.Log.Error("sandboxes without a readable record were moved to the folder damaged", "config", id, "sandboxes", r.Damaged)
		}
		if r.Ended > 0 {
			b.o.Log.Info("sandboxes ended", "config", id, "ended", r.Ended, "seen", r.Seen, "in_use", r.InUse)
		}
	}
}

// due holds a sandbox against its own end and the clocks of its config. One whose
// beginning is unknown is protected from the latter.
func (b *Backend) due(c config) store.Due {
	now := b.o.Now()
	over := func(since time.Time, seconds int64) bool {
		return seconds > 0 && now.Sub(since) >= time.Duration(seconds)*time.Second
	}
	return func(r store.Record, active time.Time) string {
		switch {
		case !r.Expires.IsZero() && !r.Expires.After(now):
			return "expired"
		case r.Created.IsZero():
			return ""
		case over(r.Created, c.TTLSeconds):
			return "ttl"
		case over(active, c.IdleSeconds):
			return "idle"
		}
		return ""
	}
}
