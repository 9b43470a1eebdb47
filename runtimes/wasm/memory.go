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
		copy(grown, l.buf)
		l.buf = grown
	}
	l.buf = l.buf[:size]
	return l.buf
}

// Free implements experimental.LinearMemory.
func (l *linearMemory) Free() { l.buf = nil }
