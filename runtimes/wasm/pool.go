package wasm

import (
	"context"
	"time"
)

const (
	// leastPause is the least time between two refills.
	leastPause = time.Millisecond
	// restFactor keeps refills to a quarter of one processor: after an instance
	// took d to make, the next is not begun for three times d. A module that traps
	// on every call thus costs its own callers and little else, and is back to full
	// size soon after it stops.
	restFactor = 3
	// firstBackoff and mostBackoff bound the pauses between attempts that fail.
	firstBackoff = 100 * time.Millisecond
	mostBackoff  = 5 * time.Second
)

// own replaces discarded instances until the module is closed, and then frees
// everything. It is the one goroutine a Module has.
func (m *Module) own() {
	defer close(m.done)
	live := m.spec.Limits.Instances
	var next time.Time
	for m.life.Err() == nil {
		select {
		case <-m.life.Done():
		case <-m.spent:
			live--
			if in := m.refill(&next); in != nil {
				live++
				m.idle <- in
			}
		}
	}
	// Every instance comes back: calls are bounded.
	for ; live > 0; live-- {
		select {
		case in := <-m.idle:
			in.close()
		case <-m.spent:
		}
	}
	m.free()
}

// refill makes one instance, not before next and however many attempts it takes;
// nil once the module is closed. It moves next on.
func (m *Module) refill(next *time.Time) *instance {
	for backoff := firstBackoff; wait(m.life, time.Until(*next)); backoff = min(2*backoff, mostBackoff) {
		began := time.Now()
		in, err := m.newInstance(m.life)
		if err == nil {
			*next = time.Now().Add(max(leastPause, restFactor*time.Since(began)))
			m.stats.refills.Add(1)
			return in
		}
		if m.life.Err() != nil {
			break
		}
		*next = time.Now().Add(backoff)
		m.stats.refillFailures.Add(1)
		m.spec.Log.Error("cannot replace a module's instance, will try again", "module", m.spec.Name, "error", err, "in", backoff)
	}
	return nil
}

// wait reports whether d passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// free releases the compiled code. No instance is left, and there may be no code.
func (m *Module) free() {
	ctx := context.Background()
	// Neither has anything to report: they free memory of this process.
	if m.runtime != nil {
		_ = m.runtime.Close(ctx)
	}
	if m.cache != nil {
		_ = m.cache.Close(ctx)
	}
}
