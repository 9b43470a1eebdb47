package region

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const noReserve = unix.MAP_NORESERVE

// adviseHuge asks for huge pages: a fresh interpreter touches some thousand
// small ones. It is a hint; failure changes nothing.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// discard makes memory zero, or what it is mapped from, by giving it back.
func discard(b []byte) {
	if len(b) > 0 && unix.Madvise(b, unix.MADV_DONTNEED) != nil {
		wipe(b)
	}
}

// memfd returns a file in memory.
func memfd() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("caisson-image", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("caisson-image", flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "caisson-image"), nil
}

// seal makes the file unchangeable.
func seal(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	return os.NewSyscallError("seal", err)
}
