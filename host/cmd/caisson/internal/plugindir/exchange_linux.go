package plugindir

import (
	"errors"

	"golang.org/x/sys/unix"
)

// exchange puts fresh in the place of to at once; what was there ends up below the
// directory that is removed.
func exchange(fresh, to, old string) error {
	err := unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return move(fresh, to, old)
	}
	return err
}
