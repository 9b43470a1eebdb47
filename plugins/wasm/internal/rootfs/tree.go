package rootfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// Tree is how the host changes what guests see: through the same root and under
// the same account and limits, so that the account is exact whoever does what at
// the same time. Paths are relative, slash-separated and clean; "." is the root.
// It is safe for concurrent use.
type Tree struct{ fs *FS }

// NewTree returns the host's side of root and q; see New.
func NewTree(root *os.Root, q *Quota) Tree { return Tree{fs: New(root, q, Options{})} }

// ErrPath says that a path is longer or deeper than the limits allow.
var ErrPath = errors.New("path too long or too deep")

// ErrIsDir says that a directory is where a file should be, ErrNotDir that
// something else is where a directory should be.
var (
	ErrIsDir  = errors.New("is a directory")
	ErrNotDir = errors.New("is no directory")
)

// check holds a path against the limits on what is made.
func (t Tree) check(p string) error {
	if l := t.fs.quota.limits; depth(p) > l.Depth || len(p) > l.PathBytes {
		return ErrPath
	}
	return nil
}

// MakeDirs makes the directory p and its missing parents. A directory that is
// there is success, anything else at its place ErrNotDir.
func (t Tree) MakeDirs(p string) error {
	if err := t.check(p); err != nil {
		return err
	}
	if p == "." {
		return nil
	}
	t.fs.quota.names.Lock()
	defer t.fs.quota.names.Unlock()
	return t.makeDirs(p)
}

func (t Tree) makeDirs(p string) error {
	info, err := t.fs.root.Stat(p)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return ErrNotDir
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if parent := path.Dir(p); parent != "." {
		if err := t.makeDirs(parent); err != nil {
			return err
		}
	}
	// A link on the way may lead deeper than the path is spelled.
	if _, e := t.fs.place(p, 0, 0); e == esys.ENAMETOOLONG {
		return ErrPath
	}
	defer t.fs.quota.changed()
	return t.fs.charged(func() error { return t.fs.root.Mkdir(p, 0o755) })
}

// Install puts a staged file to the name p, whose parent exists. It is move
// that renames, to base in the open directory; what was there is replaced, links
// not followed, but a directory is ErrIsDir. The entry is charged here, the bytes
// of the staged file were charged before; those of a replaced file are given
// back, once nothing has it open.
func (t Tree) Install(p string, move func(dir *os.File, base string) error) error {
	if err := t.check(p); err != nil {
		return err
	}
	t.fs.quota.names.Lock()
	defer t.fs.quota.names.Unlock()
	dir, err := t.fs.root.OpenFile(path.Dir(p), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	old, err := t.fs.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		old = nil
	case err != nil:
		return err
	case old.IsDir():
		return ErrIsDir
	}
	if old == nil {
		if err := t.fs.quota.Charge(0, 1); err != nil {
			return err
		}
	}
	defer t.fs.quota.changed()
	if err := move(dir, path.Base(p)); err != nil {
		if old == nil {
			t.fs.quota.Release(0, 1)
		}
		return err
	}
	if old != nil {
		t.fs.quota.Release(t.fs.quota.held(sys.NewStat_t(old)), 0)
	}
	return nil
}

// removeBatch is how many names of a directory are held at a time.
const removeBatch = 512

// removeAttempts bounds how often a directory that fills again is emptied.
const removeAttempts = 16

// RemoveAll removes p and what is below it, never following links. What is not
// there is success. Guests may run meanwhile; when one fills a directory as fast
// as it is emptied, the error is ENOTEMPTY. When ctx ends, what is left stays.
func (t Tree) RemoveAll(ctx context.Context, p string) error {
	info, err := t.fs.root.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return t.unlink(p)
	}
	for range removeAttempts {
		if err = t.empty(ctx, p); err != nil {
			return err
		}
		if err = t.unlink(p); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
			return err
		}
	}
	return err
}

// empty removes what is in the directory p. It keeps no descriptor while it goes
// deeper.
func (t Tree) empty(ctx context.Context, p string) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir, err := t.fs.root.OpenFile(p, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
			return nil // it went away, or became something else: unlink tells
		}
		if err != nil {
			return err
		}
		names, err := dir.Readdirnames(removeBatch)
		dir.Close()
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) { // it was removed
			return err
		}
		if len(names) == 0 {
			return nil
		}
		for _, name := range names {
			if err := t.RemoveAll(ctx, p+"/"+name); err != nil {
				return err
			}
		}
	}
}

// unlink removes one entry and gives back what it held.
func (t Tree) unlink(p string) error {
	t.fs.quota.names.Lock()
	defer t.fs.quota.names.Unlock()
	info, err := t.fs.root.Lstat(p)
	if err == nil {
		err = t.fs.root.Remove(p)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer t.fs.quota.changed()
	t.fs.quota.removed(sys.NewStat_t(info))
	return nil
}
