//go:build unix && !linux

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
	wfd, dfd, name := int(work.Fd()), int(dir.Fd()), filepath.Base(from)
	if !exclusive {
		return unix.Renameat(wfd, name, dfd, base)
	}
	if err := unix.Linkat(wfd, name, dfd, base, 0); err != nil {
		return err
	}
	return unix.Unlinkat(wfd, name, 0)
}
