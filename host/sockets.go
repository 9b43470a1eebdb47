package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// socketPrefix begins the names of directories for plugin sockets.
const socketPrefix = "caisson-p-"

// sockets is the directory for the sockets of one host's plugins. It is in the
// temporary directory because the path of a unix socket ends at 107 bytes, which
// a deep data directory would pass. The host holds a lock on it, so that what a
// killed host left can be told from what a living one uses.
type sockets struct {
	dir  string
	lock *os.File
}

// newSockets makes a private directory and removes those of dead hosts.
func newSockets() (*sockets, error) {
	s, err := ownSockets()
	if err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(s.dir), socketPrefix+"*"))
	if err != nil {
		return s, nil // nobody's loss: the name of the temporary directory is odd
	}
	for _, d := range left {
		if lock, err := lockDir(d); err == nil { // nobody holds it
			_ = os.RemoveAll(d) // somebody else's cannot be removed, and need not be
			lock.Close()
		}
	}
	return s, nil
}

// ownSockets makes a directory and locks it. Until it is locked another host, which
// starts at the same moment, may take it for a dead one's: then there is another.
func ownSockets() (*sockets, error) {
	for try := 0; ; try++ {
		dir, err := os.MkdirTemp("", socketPrefix)
		if err != nil {
			return nil, fmt.Errorf("make a directory for plugin sockets: %w", err)
		}
		lock, err := lockDir(dir)
		if err == nil && isAt(lock, dir) {
			return &sockets{dir: dir, lock: lock}, nil
		}
		if err == nil {
			err = errors.Join(errors.New("it was removed"), lock.Close())
		}
		if try >= socketTries {
			return nil, errors.Join(fmt.Errorf("lock the directory for plugin sockets: %w", err), os.RemoveAll(dir))
		}
	}
}

// socketTries is how often another host may come in between.
const socketTries = 100

// isAt reports whether f is what lies at path.
func isAt(f *os.File, path string) bool {
	was, err := f.Stat()
	if err != nil {
		return false
	}
	is, err := os.Stat(path)
	return err == nil && os.SameFile(was, is)
}

// lockDir takes the lock of a directory, or fails at once.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (s *sockets) close() error {
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}
