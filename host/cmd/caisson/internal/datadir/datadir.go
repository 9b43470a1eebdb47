// Package datadir holds a data directory: one process at a time, with the
// deployment secret and the development key in it.
//
// It knows nothing of what plugins and the ledger keep there.
package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/caisson-run/caisson/host/identity"
	"golang.org/x/sys/unix"
)

// Names of the files that this package keeps.
const (
	lockFile   = "lock"
	SecretFile = "secret"
	DevKeyFile = "dev-key"
)

// SecretVariable holds the deployment secret; several, newest first, are
// separated by commas.
const SecretVariable = "CAISSON_SECRET"

// Dir is a data directory that this process holds.
type Dir struct {
	path string
	lock *os.File
}

// HeldError: another process holds the directory.
type HeldError struct {
	Path string
	// PID is the holder's; 0 when it did not say.
	PID int
}

func (e *HeldError) Error() string {
	holder := "another process"
	if e.PID > 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("data directory %s is in use by %s: stop it, or choose another with --data", e.Path, holder)
}

// Looking at a lock takes it for a moment (Holder), so Open tries again before
// it believes that somebody holds the directory.
const (
	lockTries = 5
	lockPause = 20 * time.Millisecond
)

// Open makes path, 0700, when it does not exist, and holds it until Close or
// until the process ends in whatever way. It returns a *HeldError when another
// process, or another Dir of this one, holds it.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if st.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("data directory %s: others may write it: run chmod 700 %s", path, path)
	}
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	for try := 1; ; try++ {
		held, err := tryLock(f, unix.LOCK_EX)
		if err == nil && !held {
			break
		}
		if err == nil && try == lockTries {
			err = &HeldError{Path: path, PID: readPID(f)}
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		time.Sleep(lockPause)
	}
	d := &Dir{path: path, lock: f}
	if err := d.writePID(); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("data directory: write lock: %w", err)
	}
	return d, nil
}

func (d *Dir) writePID() error {
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	_, err := d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Path is absolute.
func (d *Dir) Path() string { return d.path }

// Close lets the directory go. The lock file stays, empty: removing it would
// let two processes lock two files of one name.
func (d *Dir) Close() error {
	return errors.Join(d.lock.Truncate(0), d.lock.Close())
}

// Holder says who holds the directory at path, without waiting or changing
// anything. held is false for a directory that does not exist.
func Holder(path string) (pid int, held bool, err error) {
	f, err := os.Open(filepath.Join(path, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	held, err = tryLock(f, unix.LOCK_SH)
	if err != nil || !held {
		return 0, false, err
	}
	return readPID(f), true, nil
}

// tryLock reports whether somebody else holds f.
func tryLock(f *os.File, how int) (held bool, err error) {
	for {
		switch err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err {
		case nil:
			return false, nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return true, nil
		default:
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

func readPID(f *os.File) int {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// Keys returns the deployment's keys from SecretVariable, or else from the
// secret file, which is made when there is none. source says which it was.
func (d *Dir) Keys(lookup func(string) (string, bool)) (keys *identity.Keys, source string, err error) {
	if v, _ := lookup(SecretVariable); strings.TrimSpace(v) != "" {
		keys, err := KeysFrom(v)
		return keys, SecretVariable, err
	}
	path := filepath.Join(d.path, SecretFile)
	secret, err := identity.SecretFile(path)
	if err != nil {
		return nil, path, err
	}
	keys, err = identity.NewKeys(secret)
	return keys, path, err
}

// KeysFrom derives keys from the value of SecretVariable.
func KeysFrom(value string) (*identity.Keys, error) {
	var secrets [][]byte
	for part := range strings.SplitSeq(value, ",") {
		secrets = append(secrets, []byte(strings.TrimSpace(part)))
	}
	keys, err := identity.NewKeys(secrets...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", SecretVariable, err)
	}
	return keys, nil
}

// devKeyPrefix makes a leaked development key recognisable.
const devKeyPrefix = "caisson-dev-"

// DevKey returns the development key, making a random one when there is none.
func (d *Dir) DevKey() (string, error) {
	path := filepath.Join(d.path, DevKeyFile)
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, err = f.WriteString(devKeyPrefix + hex.EncodeToString(b) + "\n")
		if err := errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path)
			return "", fmt.Errorf("development key: %w", err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("development key: %w", err)
	}
	return ReadDevKey(path)
}

// ReadDevKey returns the key in a file that DevKey made.
func ReadDevKey(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", fmt.Errorf("development key: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("development key: %w", err)
	}
	if !st.Mode().IsRegular() || st.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("development key %s: must be a regular file that only its owner may read (chmod 600)", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, 256))
	if err != nil {
		return "", fmt.Errorf("development key: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if len(key) < 16 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("development key %s: is damaged: delete it to have a new one made", path)
	}
	return key, nil
}
