package embedded

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameInto moves a file from one open directory to a name in another. With
// exclusive an existing name is an error.
func renameInto(work *os.File, staged string, dir *os.File, base string, exclusive bool) error {
	var flags uint
	if exclusive {
		flags = unix.RENAME_NOREPLACE
	}
	return unix.Renameat2(int(work.Fd()), staged, int(dir.Fd()), base, flags)
}
