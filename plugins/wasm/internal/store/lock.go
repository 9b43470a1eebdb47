package store

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// dirLock is a lock on a directory. It ends when it is closed, or with the process.
// It holds a bare descriptor: an os.File would change its mode, by two system calls,
// each time it is asked for it. One goroutine at a time uses it.
type dirLock struct{ fd int }

// lockDir opens a directory and locks it, unix.LOCK_SH or LOCK_EX. It never waits:
// a lock that cannot be had is unix.EWOULDBLOCK.
func lockDir(dir string, how int) (dirLock, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return dirLock{}, fmt.Errorf("open directory: %w", err)
	}
	l := dirLock{fd}
	if err := l.set(how); err != nil {
		l.close()
		return dirLock{}, err
	}
	return l, nil
}

// set changes the lock; unix.LOCK_UN gives it up and keeps the descriptor.
func (l dirLock) set(how int) error {
	_, err := retry(func() (int, error) { return 0, unix.Flock(l.fd, how|unix.LOCK_NB) })
	if err != nil {
		return fmt.Errorf("lock directory: %w", err)
	}
	return nil
}

func (l dirLock) close() { _ = unix.Close(l.fd) }

// at reports errMoved unless path still is the locked directory.
func (l dirLock) at(path string) error {
	var mine, there unix.Stat_t
	if err := unix.Fstat(l.fd, &mine); err != nil {
		return err
	}
	err := unix.Lstat(path, &there)
	switch {
	case errors.Is(absent(err), ErrAbsent):
		return errMoved // the next attempt tells whether anything is there
	case err != nil:
		return err
	case mine.Dev != there.Dev || mine.Ino != there.Ino:
		return errMoved
	}
	return nil
}

// retry repeats a system call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
