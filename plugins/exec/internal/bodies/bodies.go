// Package bodies bounds the memory of JSON bodies that are read, decoded and run at once.
// How many there may be the queue says, and how large one is its route; their product is
// more than a small machine has.
package bodies

import (
	"errors"
	"sync"
)

// Free is how many bytes of each body count for nothing: ordinary requests are never refused
// because others send large ones.
const Free = 64 << 10

// Factor is how many bytes of memory a byte of a body counts for until it is decoded, and
// FactorParts of one that is decoded in parts. Tests of the routes hold them to it.
const (
	Factor      = 12
	FactorParts = 4
)

// ErrFull: there is no room for the next piece of a body now.
var ErrFull = errors.New("the bodies under way have all the memory that there is for them")

// Budget is shared by all bodies. It is safe for concurrent use.
type Budget struct {
	total, tenant int64

	mu   sync.Mutex
	used int64
	by   map[string]int64
}

// New returns a Budget of so many bytes of memory, in all and for each tenant. One body that
// takes most, in bytes of memory, has room in any case, and two of different tenants.
func New(total, tenant, largest int64) *Budget {
	tenant = max(tenant, largest)
	return &Budget{total: max(total, 2*largest), tenant: tenant, by: make(map[string]int64)}
}

// Body is one that is read. Its methods are not safe for concurrent use, but for Close.
type Body struct {
	b      *Budget
	tenant string
	read   int64 // bytes
	factor int64

	held int64 // bytes of memory, under b.mu
	done bool
}

// Open is called before a body of a tenant is read. The caller has to Close it.
func (b *Budget) Open(tenant string) *Body { return &Body{b: b, tenant: tenant, factor: Factor} }

// Read counts n more bytes that were read, or returns ErrFull. It never waits: bodies that
// have come in half would wait for each other.
func (x *Body) Read(n int) error {
	x.read += int64(n)
	return x.hold(max(0, x.read-Free) * x.factor)
}

// InParts says that the body is decoded while it comes, and part by part.
func (x *Body) InParts() { x.factor = FactorParts }

// Decoded says that of the body n bytes of memory are left.
func (x *Body) Decoded(n int64) error { return x.hold(max(0, n-Free)) }

func (x *Body) hold(bytes int64) error {
	b := x.b
	b.mu.Lock()
	defer b.mu.Unlock()
	more := bytes - x.held
	switch {
	case x.done:
		return nil
	case more > 0 && (b.used+more > b.total || b.by[x.tenant]+more > b.tenant):
		return ErrFull
	}
	b.add(x, more)
	return nil
}

func (b *Budget) add(x *Body, more int64) {
	x.held += more
	b.used += more
	if b.by[x.tenant] += more; b.by[x.tenant] == 0 {
		delete(b.by, x.tenant)
	}
}

// Close gives back what the body holds. Further calls do nothing.
func (x *Body) Close() {
	x.b.mu.Lock()
	defer x.b.mu.Unlock()
	x.b.add(x, -x.held)
	x.done = true
}

// Used is the memory that bodies hold, in bytes.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
