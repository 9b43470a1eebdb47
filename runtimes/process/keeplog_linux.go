package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// punch gives back the room of the first n bytes of a file. Its length stays, so that
// nothing is lost that somebody appends meanwhile. Not every file system can.
func punch(f *os.File, n int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, n)
}
