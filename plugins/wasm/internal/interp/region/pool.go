package region

import (
	"slices"
	"sync"
)

// Pool keeps regions that nobody uses. It is safe for concurrent use.
type Pool struct {
	pages   *Pagemap // nil when the kernel does not tell
	reserve int64    // size of a pooled region

	mu     sync.Mutex
	idle   []idle // the last was put back last
	keep   int    // how many there are at most
	closed bool
}

// idle is a region that nobody uses.
type idle struct {
	*Region
	next  *Image // what it is for, or is to be cleaned for
	dirty bool   // still has what a guest has left
}

// smallReserve is the size of regions where there is no address space for the
// largest memory.
const smallReserve = 512 << 20

// NewPool returns a pool that keeps at most keep idle regions.
func NewPool(keep int) *Pool {
	p := &Pool{keep: keep, reserve: MaxBytes}
	if probe, err := New(MaxBytes); err != nil {
		p.reserve = smallReserve
	} else {
		probe.Unmap()
	}
	// Without it regions are cleared as a whole.
	p.pages, _ = OpenPagemap()
	return p
}

// Reserve is the size of the regions in the pool; larger ones are made when they
// are asked for.
func (p *Pool) Reserve() int64 { return p.reserve }

// Get returns a region for memories of up to limit bytes, ready to be loaded with an
// image, or all zero if i is nil. It prefers one that had the image before.
func (p *Pool) Get(i *Image, limit int64) (*Region, error) {
	if limit > p.reserve {
		return New(limit)
	}
	r, ok := p.take(i)
	switch {
	case !ok:
		return New(p.reserve)
	case r.dirty:
		r.Clean(i, p.pages)
	case r.next != i:
		r.Clean(nil, p.pages)
	}
	if r.b == nil {
		return New(p.reserve)
	}
	return r.Region, nil
}

// take removes the idle region that is best for the image.
func (p *Pool) take(i *Image) (idle, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := -1
	for n, r := range p.idle {
		if r.next == i && (best < 0 || p.idle[best].dirty || !r.dirty) {
			best = n
		}
	}
	// As long as there may be more of them, a new one is no worse than one of another
	// image, which is left to its own.
	if best < 0 && len(p.idle) >= p.keep && p.keep > 0 {
		best = 0
	}
	if best < 0 {
		return idle{}, false
	}
	r := p.idle[best]
	p.idle = slices.Delete(p.idle, best, best+1)
	return r, true
}

// Put takes a region back whose instance is closed. It will be cleaned for guests
// with the image, by Tidy or when it is asked for. A region that the pool has no
// room for is unmapped.
func (p *Pool) Put(r *Region, next *Image) {
	if !p.add(idle{r, next, true}) {
		r.Unmap()
	}
}

func (p *Pool) add(r idle) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.idle) >= p.keep || int64(len(r.b)) != p.reserve {
		return false
	}
	p.idle = append(p.idle, r)
	return true
}

// Tidy cleans the regions that were put back.
func (p *Pool) Tidy() {
	for {
		r, ok := p.takeDirty()
		if !ok {
			return
		}
		r.Clean(r.next, p.pages)
		r.dirty = false
		if !p.add(r) {
			r.Unmap()
		}
	}
}

func (p *Pool) takeDirty() (idle, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := slices.IndexFunc(p.idle, func(r idle) bool { return r.dirty })
	if n < 0 {
		return idle{}, false
	}
	r := p.idle[n]
	p.idle = slices.Delete(p.idle, n, n+1)
	return r, true
}

// Idle returns how many idle regions are for an image.
func (p *Pool) Idle(i *Image) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.idle {
		if r.next == i {
			n++
		}
	}
	return n
}

// Trim unmaps the idle regions for an image.
func (p *Pool) Trim(i *Image) {
	p.mu.Lock()
	var drop []idle
	p.idle = slices.DeleteFunc(p.idle, func(r idle) bool {
		if r.next == i {
			drop = append(drop, r)
		}
		return r.next == i
	})
	p.mu.Unlock()
	for _, r := range drop {
		r.Unmap()
	}
}

// Measure is the function Measure with what the pool knows of pages.
func (p *Pool) Measure(i *Image) Choice { return Measure(i, p.pages) }

// Close unmaps the idle regions. Those in use are unmapped when they are put back.
func (p *Pool) Close() error {
	p.mu.Lock()
	all, closed := p.idle, p.closed
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	if closed {
		return nil
	}
	for _, r := range all {
		r.Unmap()
	}
	return p.pages.Close()
}
