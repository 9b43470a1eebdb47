package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// cloneFile makes out share the blocks of in. Where that cannot be, the error is
// errors.ErrUnsupported and out is empty.
func cloneFile(out, in *os.File) error {
	err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EXDEV),
		errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return fmt.Errorf("clone: %w", err)
}

// copyData copies what in holds and leaves holes where it has them: a file can be
// far longer than the disk.
func copyData(ctx context.Context, out, in *os.File, size int64) error {
	for off := int64(0); off < size; {
		data, err := unix.Seek(int(in.Fd()), off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // nothing but a hole is left
		}
		hole := size
		if err == nil {
			hole, err = unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE)
		}
		if errors.Is(err, unix.EINVAL) { // the file system does not tell
			data, hole, err = off, size, nil
		}
		if err != nil {
			return err
		}
		end := min(hole, size)
		if err := copyRange(ctx, out, in, data, end); err != nil {
			return err
		}
		off = max(end, off+1)
	}
	return out.Truncate(size)
}
