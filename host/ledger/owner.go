package ledger

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// owner is the sign of life of one open Ledger: a locked file named after it.
// The lock belongs to the open file, so it also tells two Ledgers of one
// process apart, and the kernel drops it however the process ends. Go opens
// files close-on-exec, so no child keeps it.
type owner struct {
	id   string
	file *os.File
}

// newOwner creates and locks a sign of life in dir.
func newOwner(dir string) (*owner, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create owner directory: %w", err)
	}
	// Between creating and locking the file another process may take it for a
	// dead one's and remove it; then a new name is tried.
	for range 10 {
		id := rand.Text()
		file, err := os.OpenFile(filepath.Join(dir, id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("create owner file: %w", err)
		}
		if lock(file) && linked(file) {
			return &owner{id: id, file: file}, nil
		}
		file.Close()
	}
	return nil, errors.New("lock owner file: taken by other processes ten times")
}

// close ends the sign of life. Holds left under its id are a dead owner's.
func (o *owner) close() error {
	return errors.Join(os.Remove(o.file.Name()), o.file.Close())
}

// seize reports whether the owner called id is dead, and then keeps its file
// locked until done is called, so that nobody else settles at the same time.
// done(true) removes the file.
func seize(dir, id string) (dead bool, done func(remove bool), err error) {
	if !isOwnerID(id) {
		return true, func(bool) {}, nil
	}
	path := filepath.Join(dir, id)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// Removed at a clean close, or by whoever settled it; settling again
		// finds nothing.
		return true, func(bool) {}, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("open owner file: %w", err)
	}
	if !lock(file) {
		return false, nil, file.Close()
	}
	return true, func(remove bool) {
		if remove {
			_ = os.Remove(path)
		}
		_ = file.Close()
	}, nil
}

// isOwnerID reports whether s has the form of rand.Text.
func isOwnerID(s string) bool {
	return len(s) == 26 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

func lock(file *os.File) bool {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EINTR {
			return err == nil
		}
	}
}

// linked reports whether file still is what its name leads to.
func linked(file *os.File) bool {
	own, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(own, named)
}
