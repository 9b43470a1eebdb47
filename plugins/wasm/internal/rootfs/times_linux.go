package rootfs

import (
	"os"
	"unsafe"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"golang.org/x/sys/unix"
)

// futimens sets the times of an open file with the kernel's nanoseconds.
// x/sys has no wrapper for utimensat with a nil path, which is what futimens(3)
// calls.
func futimens(f *os.File, atim, mtim int64) error {
	ts := [2]unix.Timespec{timespec(atim), timespec(mtim)}
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno unix.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall6(unix.SYS_UTIMENSAT, fd, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return err
}

func timespec(ns int64) unix.Timespec {
	if ns == esys.UTIME_OMIT {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return unix.NsecToTimespec(ns)
}
