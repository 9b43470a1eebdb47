//go:build unix

package guest

import (
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// pageBytes is the unit in which linear memory grows.
const pageBytes = 64 << 10

// memory is the linear memory of one instance: address space for the whole
// limit is reserved at once, so that growth never copies, and the kernel hands
// out zeroed pages on first touch. Growth beyond the limit is refused, which is
// the memory limit. Only the goroutine that runs the guest uses it.
type memory struct {
	limit   uint64
	region  []byte
	size    uint64 // largest handed out
	refused bool
	once    sync.Once
}

var _ experimental.LinearMemory = (*memory)(nil)

// newMemory reserves limit bytes, a multiple of pageBytes.
func newMemory(limit int64) (*memory, error) {
	b, err := unix.Mmap(-1, 0, int(limit), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory: %w", limit, err)
	}
	adviseHuge(b)
	return &memory{limit: uint64(limit), region: b}, nil
}

// Allocate implements experimental.MemoryAllocator for the one instance that
// the memory is for.
func (m *memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit || m.region == nil {
		m.refused = true
		return nil
	}
	m.size = max(m.size, size)
	return m.region[:size:m.limit]
}

// Free implements experimental.LinearMemory. wazero calls it when the instance
// is closed, from the guest's goroutine; release may call it again.
func (m *memory) Free() {
	m.once.Do(func() {
		_ = unix.Munmap(m.region)
		m.region = nil
	})
}
