//go:build unix && !linux

package embedded

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameInto moves a file from one open directory to a name in another. With
// exclusive an existing name is an error.
func renameInto(work *os.File, staged string, dir *os.File, base string, exclusive bool) error {
	wfd, dfd, name := int(work.Fd()), int(dir.Fd()), staged
	if !exclusive {
		return unix.Renameat(wfd, name, dfd, base)
	}
	if err := unix.Linkat(wfd, name, dfd, base, 0); err != nil {
		return err
	}
	return unix.Unlinkat(wfd, name, 0)
}
