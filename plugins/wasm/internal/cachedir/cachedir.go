// Package cachedir has what caches of files need that hold something to be trusted,
// such as machine code: a directory that only we can write to, locks between
// processes, and files that appear at once.
//
// It does not know what is kept, and does not check it: callers keep digests.
package cachedir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a lock held by another process is tried.
const lockPoll = 20 * time.Millisecond

// Open makes the directory if necessary, with mode 0700, and refuses one whose
// content others may have written.
func Open(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	ours := ok && int(st.Uid) == os.Geteuid()
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ours {
		return errors.New("cache: the directory must be ours and closed to writing by others (chmod go-w)")
	}
	return nil
}

// Lock waits until nobody else holds the lock that a file stands for, in this or
// another process, or until ctx ends, which is its cause. Closing the file gives the
// lock back.
func Lock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("cache: lock: %w", err)
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			_ = f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// Replace gives a file new content at once: whoever opens it finds the old or the
// new. Callers hold a lock.
func Replace(path string, content []byte) error {
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, content, 0o600); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return nil
}
