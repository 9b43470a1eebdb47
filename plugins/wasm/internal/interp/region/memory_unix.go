//go:build unix

package region

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugeBytes is the size of a huge page, to which regions are aligned.
const hugeBytes = 2 << 20

func (r *Region) reserve(n int) error {
	m, err := unix.Mmap(-1, 0, n+hugeBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|noReserve)
	if err != nil {
		return err
	}
	skip := -int(uintptr(unsafe.Pointer(&m[0]))) & (hugeBytes - 1)
	r.mapping, r.b = m, m[skip:skip+n:skip+n]
	adviseHuge(r.b)
	return nil
}

func (r *Region) release() { _ = unix.Munmap(r.mapping) }

// remap puts new memory in the place of b: anonymous, or a private mapping of a
// file. b is aligned to pages.
func remap(b []byte, fd int, flags int) error {
	_, err := unix.MmapPtr(fd, 0, unsafe.Pointer(&b[0]), uintptr(len(b)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED|flags)
	return err
}

// unmapImage replaces a mapped image by memory that is zero.
func (r *Region) unmapImage() {
	b := r.b[:r.image.size]
	if remap(b, -1, unix.MAP_ANON|noReserve) != nil {
		r.Unmap() // there may be a hole in it
		return
	}
	adviseHuge(b)
	r.cow = false
}
