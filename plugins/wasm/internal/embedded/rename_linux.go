package embedded

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// renameInto moves a file to a name in an open directory. With exclusive an
// existing name is an error.
func renameInto(from string, dir *os.File, base string, exclusive bool) error {
	work, err := os.Open(filepath.Dir(from))
	if err != nil {
		return err
	}
	defer work.Close()
	var flags uint
	if exclusive {
		flags = unix.RENAME_NOREPLACE
	}
	return unix.Renameat2(int(work.Fd()), filepath.Base(from), int(dir.Fd()), base, flags)
}
