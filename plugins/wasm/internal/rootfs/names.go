package rootfs

import (
	"errors"
	"io/fs"
	"os"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// errnoError carries an errno of our own through an error result.
type errnoError esys.Errno

func (e errnoError) Error() string { return esys.Errno(e).Error() }

// changeErrno is change for operations that choose their own errno.
func (f *FS) changeErrno(p string, op func(p string) error) esys.Errno {
	var own errnoError
	e := f.change(p, func(p string) error {
		err := op(p)
		if errors.As(err, &own) {
			return nil
		}
		return err
	})
	if own != 0 {
		return f.fail(esys.Errno(own))
	}
	return e
}

// Mkdir implements experimental/sys.FS.
func (f *FS) Mkdir(p string, perm fs.FileMode) esys.Errno {
	return f.changeErrno(p, func(p string) error {
		if _, err := f.root.Lstat(p); err == nil {
			return fs.ErrExist
		}
		if _, e := f.place(p, 0, 0); e != 0 {
			return errnoError(e)
		}
		return f.charged(func() error { return f.root.Mkdir(p, perm.Perm()|0o700) })
	})
}

// charged runs op, which adds one entry, and takes the charge back on failure.
func (f *FS) charged(op func() error) error {
	if err := f.quota.Charge(0, 1); err != nil {
		return err
	}
	if err := op(); err != nil {
		f.quota.Release(0, 1)
		return err
	}
	return nil
}

// Symlink implements experimental/sys.FS. Targets that are absolute or leave
// the root as spelled are EPERM; the others are resolved, and checked, at each
// use.
func (f *FS) Symlink(target, p string) esys.Errno {
	if len(target) > f.quota.limits.PathBytes {
		return esys.ENAMETOOLONG
	}
	return f.changeErrno(p, func(p string) error {
		if target == "" {
			return errnoError(esys.ENOENT)
		}
		if !within(p, target) {
			return errnoError(esys.EPERM)
		}
		return f.charged(func() error { return f.root.Symlink(target, p) })
	})
}

// Link implements experimental/sys.FS. Only regular files can be linked.
func (f *FS) Link(from, to string) esys.Errno {
	from, e := f.clean(from)
	if e != 0 {
		return e
	}
	return f.changeErrno(to, func(to string) error {
		info, err := f.root.Lstat(from)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return errnoError(esys.EPERM)
		}
		return f.charged(func() error { return f.root.Link(from, to) })
	})
}

// Unlink implements experimental/sys.FS.
func (f *FS) Unlink(p string) esys.Errno {
	return f.changeErrno(p, func(p string) error { return f.remove(p, false) })
}

// Rmdir implements experimental/sys.FS.
func (f *FS) Rmdir(p string) esys.Errno {
	return f.changeErrno(p, func(p string) error {
		if p == "." {
			return errnoError(esys.EINVAL)
		}
		return f.remove(p, true)
	})
}

func (f *FS) remove(p string, dir bool) error {
	info, err := f.root.Lstat(p)
	if err != nil {
		return err
	}
	switch {
	case dir && !info.IsDir():
		return errnoError(esys.ENOTDIR)
	case !dir && info.IsDir():
		return errnoError(esys.EISDIR)
	}
	if err := f.root.Remove(p); err != nil {
		return err
	}
	f.quota.removed(sys.NewStat_t(info))
	return nil
}

// Rename implements experimental/sys.FS. A directory may not be moved to where
// its tree would pass the limits on depth or path length.
func (f *FS) Rename(from, to string) esys.Errno {
	from, e := f.clean(from)
	if e != 0 {
		return e
	}
	return f.changeErrno(to, func(to string) error {
		if from == "." || to == "." {
			return errnoError(esys.EINVAL)
		}
		src, err := f.root.Lstat(from)
		if err != nil {
			return err
		}
		dst, err := f.root.Lstat(to)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			dst = nil
		case err != nil:
			return err
		case os.SameFile(src, dst):
			return nil // two names of one file: POSIX says nothing happens
		case src.IsDir() && !dst.IsDir():
			return errnoError(esys.ENOTDIR)
		case !src.IsDir() && dst.IsDir():
			return errnoError(esys.EISDIR)
		}
		if src.IsDir() {
			if e := f.fits(from, to); e != 0 {
				return errnoError(e)
			}
		}
		if dst != nil && dst.IsDir() {
			// os.Root does not replace directories; POSIX replaces empty ones.
			if err := f.root.Remove(to); err != nil {
				return err
			}
		}
		if err := f.root.Rename(from, to); err != nil {
			if dst != nil && dst.IsDir() {
				_ = f.root.Mkdir(to, dst.Mode().Perm())
			}
			return err
		}
		if dst != nil {
			f.quota.removed(sys.NewStat_t(dst))
		}
		return nil
	})
}

// fits tells whether the tree at from may move to to.
func (f *FS) fits(from, to string) esys.Errno {
	was, e := f.place(from, 0, 0)
	if e != 0 {
		return e
	}
	at, e := f.place(to, 0, 0)
	if e != 0 {
		return e
	}
	if depth(at) <= depth(was) && len(at) <= len(was) {
		return 0
	}
	height, longest, err := extent(f.root, from)
	if err != nil {
		return toErrno(err)
	}
	_, e = f.place(to, height, longest)
	return e
}
