package rootfs

import (
	"errors"
	"io/fs"
	"syscall"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

// Error numbers that the guest ABI has but wazero's Errno does not. wazero
// reports each as an I/O error; Options.OnErrno lets the caller do better. The
// value above errnoBase is the number of WASI preview 1.
const (
	errnoBase = 1000

	// EMFILE: the FS has its limit of files open.
	EMFILE = esys.Errno(errnoBase + 33)
	// ENOSPC: the quota has no room for more bytes or entries.
	ENOSPC = esys.Errno(errnoBase + 51)
)

// toErrno maps a host error. What os.Root refuses becomes EPERM, and so does
// any other way of leaving the directory.
func toErrno(err error) esys.Errno {
	if err == nil {
		return 0
	}
	if errors.Is(err, ErrQuota) {
		return ENOSPC
	}
	if errors.Is(err, errLinks) {
		return esys.ELOOP
	}
	var se syscall.Errno
	if !errors.As(err, &se) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return esys.ENOENT
		case errors.Is(err, fs.ErrExist):
			return esys.EEXIST
		case errors.Is(err, fs.ErrClosed):
			return esys.EBADF
		}
		// os.Root's own "path escapes from parent" is not exported; whatever
		// else has no number is not a success either.
		return esys.EPERM
	}
	switch se {
	case syscall.EXDEV:
		return esys.EPERM
	case syscall.ENXIO, syscall.ENODEV, syscall.EOPNOTSUPP:
		// A FIFO without a reader, a device without a driver, a socket.
		return esys.EACCES
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return ENOSPC
	case syscall.EMFILE, syscall.ENFILE:
		return EMFILE
	}
	return esys.UnwrapOSError(se)
}
