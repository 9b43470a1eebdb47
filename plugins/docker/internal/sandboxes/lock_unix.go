//go:build unix

package sandboxes

import (
	"os"
	"syscall"
)

// tryLock locks a file until it is closed, or fails at once where another has it.
func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
