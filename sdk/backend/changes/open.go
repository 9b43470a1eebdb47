package changes

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular says that a path is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// opens is how often a name is looked at that stands for another file each time.
const opens = 1000

// OpenRegular opens the regular file that a name below root stands for, and says what it
// was then: not what a link leads to, nor a pipe, which would block. A file that takes its
// place meanwhile is opened instead. Everything that is no regular file is ErrNotRegular.
func OpenRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	for range opens {
		want, err := root.Lstat(name)
		if err != nil {
			return nil, nil, err
		}
		if !want.Mode().IsRegular() {
			return nil, nil, ErrNotRegular
		}
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, nil, err
		}
		info, err := f.Stat()
		if err == nil && os.SameFile(want, info) {
			return f, info, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, ErrNotRegular
}
