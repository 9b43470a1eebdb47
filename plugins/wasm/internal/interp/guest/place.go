package guest

import (
	"context"
	"sync/atomic"
)

// Place is the place of one run among the programs that may compute. A run may consist
// of several programs, as a script does; the run has its place while one of them needs
// it. It is safe for concurrent use. A nil Place stands for one that is always there.
type Place struct {
	acquire func(context.Context) error
	release func()
	// users holds how many there are, while nobody is changing that.
	users chan int
}

// NewPlace returns a place that is held, by one user. acquire waits for it again.
func NewPlace(acquire func(context.Context) error, release func()) *Place {
	p := &Place{acquire: acquire, release: release, users: make(chan int, 1)}
	p.users <- 1
	return p
}

// Enter waits until the run has its place. Leave must follow, unless it fails, which
// it does when ctx ends.
func (p *Place) Enter(ctx context.Context) error {
	if p == nil {
		return nil
	}
	var n int
	select {
	case n = <-p.users:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if n == 0 {
		if err := p.acquire(ctx); err != nil {
			p.users <- 0
			return err
		}
	}
	p.users <- n + 1
	return nil
}

// Leave ends what Enter or NewPlace began. Nobody who waits in Enter is in its way: who
// waits for the place is alone, so nobody leaves then.
func (p *Place) Leave() {
	if p == nil {
		return
	}
	n := <-p.users - 1
	if n == 0 {
		p.release()
	}
	p.users <- n
}

// Beside counts what the programs of one run compute beside open calls, and ends the
// run when that is too much. It is safe for concurrent use.
type Beside struct {
	// Limit is the most that they may use, in units of fuel.
	Limit int64
	// Expire is called when it is used up, at least once.
	Expire func()

	used atomic.Int64
}

// Used is what was used until now.
func (b *Beside) Used() int64 { return b.used.Load() }

// add counts, and reports whether the limit still holds.
func (b *Beside) add(units int64) bool {
	if b.used.Add(units) <= b.Limit {
		return true
	}
	b.Expire()
	return false
}
