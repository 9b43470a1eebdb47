// Package cachedir has what caches of files need that hold something to be trusted,
// such as machine code: a directory that only we can write to, locks between
// processes, files that appear at once, and an end for what nobody uses any more.
//
// It does not know what is kept, and does not check it: callers keep digests.
//
// An entry is every file whose name begins with its base, which [Base] makes, and a
// dot. Whoever reads or writes an entry holds its [Lock].
package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// Base returns the path, without extension, of the files of one entry. key has 32
// hexadecimal digits and stands for the content, generation has 8 and stands for the
// versions of what made it.
func Base(dir, key, generation string) string {
	return filepath.Join(dir, key+"-"+generation)
}

const lockExt = ".lock"

// Lock waits until nobody else holds the lock of an entry, in this or another process,
// or until ctx ends, which is its cause. Closing the file gives the lock back. The
// entry counts as used now.
func Lock(ctx context.Context, base string) (*os.File, error) {
	f, err := lock(ctx, base)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if err := os.Chtimes(base+lockExt, now, now); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("cache: %w", err)
	}
	return f, nil
}

func lock(ctx context.Context, base string) (*os.File, error) {
	for {
		f, err := os.OpenFile(base+lockExt, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
		if err := flock(ctx, f); err != nil {
			_ = f.Close()
			return nil, err
		}
		// Whoever sweeps an entry removes the file while holding its lock: then this
		// is one that nobody else will find.
		held, err := f.Stat()
		if err == nil {
			var there os.FileInfo
			if there, err = os.Lstat(base + lockExt); err == nil && os.SameFile(held, there) {
				return f, nil
			}
		}
		_ = f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cache: %w", err)
		}
	}
}

func flock(ctx context.Context, f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("cache: lock: %w", err)
		}
		timer := time.NewTimer(lockPoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
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
