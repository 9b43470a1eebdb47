//go:build unix

package backend

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardStdout points descriptor 1 at the log, for children and C code too, and
// leaves the real one in os.Stdout for the handshake.
func guardStdout() (*stdio, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := redirect(2, 1); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	s := &stdio{stdout: os.Stdout, stderr: os.Stderr}
	os.Stdout = os.NewFile(uintptr(fd), "handshake")
	return s, nil
}

// occupied is how many bytes of a file are stored: hosts make holes where they have read
// a log.
func occupied(info os.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512 // stat(2): whatever the block size
	}
	return info.Size()
}
