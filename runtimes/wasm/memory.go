package wasm

import "github.com/tetratelabs/wazero/experimental"

// linearMemory is the memory of one instance, bounded. wazero could bound it by
// itself, but would not tell: a guest that is refused memory traps or exits in a
// way of its own, and only the refusal says why.
type linearMemory struct {
	limit uint64
	buf   []byte
	// refused is set when the guest asked for more than limit.
	refused bool
}

// copyBytes is how much is copied at once when memory grows.
const copyBytes = 1 << 20

// Allocate implements experimental.MemoryAllocator. Load has compared the least
// size the module asks for with the limit.
func (l *linearMemory) Allocate(size, _ uint64) experimental.LinearMemory {
	l.buf = make([]byte, 0, min(size, l.limit))
	return l
}

// Reallocate implements experimental.LinearMemory.
func (l *linearMemory) Reallocate(size uint64) []byte {
	if size > l.limit {
		l.refused = true
		return nil
	}
	if have := uint64(cap(l.buf)); size > have {
		grown := make([]byte, size, min(l.limit, max(size, have+have/4)))
		// In pieces: the collector cannot interrupt a copy, and the other goroutines of
		// the process wait for it.
		for at := 0; at < len(l.buf); at += copyBytes {
			copy(grown[at:], l.buf[at:min(at+copyBytes, len(l.buf))])
		}
		l.buf = grown
	}
	l.buf = l.buf[:size]
	return l.buf
}

// Free implements experimental.LinearMemory.
func (l *linearMemory) Free() { l.buf = nil }
