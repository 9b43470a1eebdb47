package region

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/tetratelabs/wazero/experimental"
)

// PageBytes is the unit in which linear memory grows.
const PageBytes = 64 << 10

// MaxBytes is the largest linear memory.
const MaxBytes = 4 << 30

// keepTail is how much memory behind the image a region keeps for the next guest;
// what a guest used beyond is given back.
const keepTail = 4 << 20

// Region is the linear memory of one instance at a time. It is address space for
// the largest memory, so that growth never copies; the kernel hands out zeroed pages
// on first touch. Growth beyond the limit is refused, which is the memory limit of
// a run. One goroutine uses a Region at a time.
type Region struct {
	b       []byte
	mapping []byte // all that was reserved; b is a part of it
	limit   uint64
	size    uint64 // of the memory; it only grows
	dirty   uint64 // end of what may not be zero
	refused bool
	image   *Image // what the region is filled with, or ready to be filled with
	cow     bool   // whether image is mapped
}

var (
	_ experimental.LinearMemory    = (*Region)(nil)
	_ experimental.MemoryAllocator = (*Region)(nil)
)

// New reserves a region for memories of at most limit bytes. Where there is not so
// much address space for memory that nobody has touched, it is an error.
func New(limit int64) (*Region, error) {
	limit = min(limit, MaxBytes) / PageBytes * PageBytes
	r := &Region{limit: uint64(limit)}
	if err := r.reserve(int(limit)); err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory: %w", limit, err)
	}
	return r, nil
}

// Allocate implements experimental.MemoryAllocator for the one instance that the
// region is for.
func (r *Region) Allocate(_, _ uint64) experimental.LinearMemory { return r }

// Reallocate implements experimental.LinearMemory.
func (r *Region) Reallocate(size uint64) []byte {
	if size > r.limit || r.b == nil {
		r.refused = true
		return nil
	}
	r.size = max(r.size, size)
	r.dirty = max(r.dirty, size)
	return r.b[:size:r.limit]
}

// Free implements experimental.LinearMemory. wazero calls it when the instance is
// closed; the memory stays for the next one.
func (r *Region) Free() {}

// Bind sets the limit for the guest, in bytes.
func (r *Region) Bind(limit int64) {
	r.limit = uint64(min(limit, int64(len(r.b)))) / PageBytes * PageBytes
}

// Limit returns the limit in bytes, Peak the size of the memory, and Refused
// whether growth was refused.
func (r *Region) Limit() int64  { return int64(r.limit) }
func (r *Region) Peak() int64   { return int64(r.size) }
func (r *Region) Refused() bool { return r.refused }

// Load gives the region the content of an image. The region is new or was cleaned,
// and no guest has run in it since then. After an error it is of no use.
func (r *Region) Load(i *Image, cow bool) error {
	if r.image != nil && r.image != i {
		size, limit := r.size, r.limit
		r.Clean(i, nil) // it was cleaned for another
		r.size, r.limit = size, limit
	}
	if r.cow && !cow {
		r.unmapImage()
	}
	if r.b == nil {
		return errLost
	}
	r.image = i
	r.dirty = max(r.dirty, uint64(i.size))
	if cow {
		if !r.cow {
			if err := i.mapInto(r.b); err != nil {
				r.Unmap() // there may be a hole in it
				return err
			}
			r.cow = true
		}
		return nil
	}
	at := uint64(0)
	for _, e := range i.extents {
		for n := uint64(0); n < e.bytes; n += chunkBytes {
			part := r.b[e.offset+n : e.offset+min(n+chunkBytes, e.bytes)]
			at += uint64(copy(part, i.content[at:]))
		}
	}
	return nil
}

// errLost is returned when the kernel gave no new memory in place of old.
var errLost = errors.New("the memory was lost")

// chunkBytes is how much is copied or cleared at once. Go cannot preempt either,
// and nobody shall wait for it.
const chunkBytes = 256 << 10

// wipe clears memory.
func wipe(b []byte) {
	for len(b) > chunkBytes {
		clear(b[:chunkBytes])
		b = b[chunkBytes:]
	}
	clear(b)
}

// Clean removes what a guest left: every byte that loading next does not overwrite
// becomes zero. It gives back memory that was used beyond the image's. pages may be
// nil; next is nil for a region that is to be all zero. Where the kernel does not
// give memory the region is unmapped instead.
func (r *Region) Clean(next *Image, pages *Pagemap) {
	end := r.dirty
	switch {
	case r.cow && r.image == next:
		r.revert(pages)
		r.zero(uint64(next.size), min(end, uint64(next.size)+keepTail), pages)
	case r.cow:
		if r.unmapImage(); r.b == nil {
			return
		}
		discard(r.b[:end])
	case next == nil || r.image != nil && r.image != next:
		discard(r.b[:end])
	default:
		from := uint64(0)
		for _, e := range next.extents {
			r.zero(from, min(e.offset, end), pages)
			from = e.offset + e.bytes
		}
		r.zero(from, min(end, uint64(next.size)+keepTail), pages)
	}
	kept := uint64(keepTail)
	if next != nil {
		kept += uint64(next.size)
	}
	if end > kept {
		discard(r.b[kept:end])
		end = kept
	}
	// What was cleared is zero, but a later guest with the image finds its extents
	// as they are.
	r.dirty = 0
	if next != nil {
		r.dirty = uint64(next.size)
	}
	r.image, r.limit, r.size, r.refused = next, uint64(len(r.b)), 0, false
}

// revert gives a mapped image back its content. Pages that the guest has written to
// are copies of its own: they are overwritten, and stay for the next guest, which
// will write to much the same ones and has no faults then. If there are too many,
// or it is not known which, the kernel drops them.
func (r *Region) revert(pages *Pagemap) {
	b := r.b[:r.image.size]
	copies := 0
	known := pages.copied(b, func(part []byte) {
		copies += len(part)
		if copies <= len(b)/keptCopies {
			r.image.copyTo(part, uintptr(unsafe.Pointer(&part[0]))-uintptr(unsafe.Pointer(&b[0])))
		}
	})
	if !known || copies > len(b)/keptCopies {
		discard(b)
	}
}

// keptCopies is the part of an image, one in so many, of which a region may have
// copies.
const keptCopies = 2

// smallGap is what is cleared without asking whether it was touched.
const smallGap = 64 << 10

// zero clears the bytes from one offset to another.
func (r *Region) zero(from, to uint64, pages *Pagemap) {
	if from >= to {
		return
	}
	b := r.b[from:to]
	if len(b) <= smallGap || !pages.touched(b, wipe) {
		wipe(b)
	}
}

// Unmap gives all of it back. The region cannot be used any more.
func (r *Region) Unmap() {
	if r.mapping != nil {
		r.release()
		r.b, r.mapping, r.image, r.cow = nil, nil, nil, false
	}
}
