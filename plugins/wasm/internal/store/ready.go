package store

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxReady is how many empty sandboxes wait for an owner. Making directories is
// most of what a new sandbox costs, so it happens ahead of time.
const maxReady = 8

// readyDir is where they wait, in the work directory.
const readyDir = "ready"

// shell is a sandbox's directory without a record: nobody's yet. It is locked and
// its data are open.
type shell struct {
	dir  string
	lock dirLock
	data *os.Root
}

// makeReady keeps the store supplied with shells until it closes.
func (s *Store) makeReady() {
	for range s.wanted {
		for {
			s.mu.Lock()
			enough := s.closed || len(s.ready) >= maxReady
			s.mu.Unlock()
			if enough {
				break
			}
			c, err := s.newShell()
			if err != nil {
				break // Create tries by itself, and says so
			}
			s.mu.Lock()
			closed := s.closed
			if !closed {
				s.ready = append(s.ready, c)
			}
			s.mu.Unlock()
			if closed {
				c.close()
			}
		}
	}
}

// shell returns an empty one, made ahead or now.
func (s *Store) shell() (shell, error) {
	s.mu.Lock()
	var c shell
	n := len(s.ready)
	if n > 0 {
		c, s.ready = s.ready[n-1], s.ready[:n-1]
	}
	if !s.closed && n <= maxReady/2 {
		select {
		case s.wanted <- struct{}{}:
		default: // it knows
		}
	}
	s.mu.Unlock()
	if n > 0 {
		return c, nil
	}
	return s.newShell()
}

func (s *Store) newShell() (shell, error) {
	c := shell{dir: filepath.Join(s.work, readyDir, randomName())}
	err := os.Mkdir(c.dir, 0o700)
	if err == nil {
		err = os.Mkdir(filepath.Join(c.dir, "data"), 0o700)
	}
	if err == nil {
		c.lock, c.data, err = openDir(c.dir)
	}
	if err != nil {
		return shell{}, errors.Join(err, os.RemoveAll(c.dir))
	}
	return c, nil
}

func (c shell) close() {
	c.lock.close()
	c.data.Close()
}

// openDir locks the sandbox that dir holds and opens its data.
func openDir(dir string) (dirLock, *os.Root, error) {
	lock, err := lockDir(dir, unix.LOCK_SH)
	if err != nil {
		return dirLock{}, nil, err
	}
	root, err := os.OpenRoot(filepath.Join(dir, "data"))
	if err != nil {
		lock.close()
		return dirLock{}, nil, err
	}
	return lock, root, nil
}
