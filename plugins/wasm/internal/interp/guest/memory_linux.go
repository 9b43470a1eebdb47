package guest

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages: a fresh interpreter touches some thousand
// small ones, and each fault costs up to 25 µs on a virtual machine. It is a
// hint; failure changes nothing.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
