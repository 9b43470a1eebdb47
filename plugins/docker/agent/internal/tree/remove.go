//go:build linux

package tree

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Remove deletes a path with everything below it. An absent one is success. Directories
// that a sandbox cannot be without are emptied. Where somebody goes on filling them it ends
// with ctx.
func (f *FS) Remove(ctx context.Context, path string) error {
	err := f.as(ctx, func() error {
		return at(path, false, func(dir int, name string) error {
			if path == files.DataDir || path == files.TmpDir {
				return f.empty(ctx, dir, name)
			}
			return f.remove(ctx, dir, name)
		})
	})
	if gone(err) {
		return nil
	}
	return err
}

func (f *FS) remove(ctx context.Context, dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := f.empty(ctx, dir, name); err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// empty removes what is in a directory. However deep that is, it holds two descriptors:
// directories in directories are moved up before they are emptied.
func (f *FS) empty(ctx context.Context, dir int, name string) error {
	top, err := f.openUp(dir, name)
	if err != nil {
		return err
	}
	defer top.Close()
	return each(ctx, top, func(name string) error {
		err := unix.Unlinkat(int(top.Fd()), name, 0)
		if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
			err = f.flatten(ctx, top, name)
		}
		return err
	})
}

// flatten removes a directory in top, after it moved the directories in it to top.
func (f *FS) flatten(ctx context.Context, top *os.File, name string) error {
	at := int(top.Fd())
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err == nil || gone(err) {
		return nil
	}
	sub, err := f.openUp(at, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	err = each(ctx, sub, func(name string) error {
		from := int(sub.Fd())
		err := unix.Unlinkat(from, name, 0)
		if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
			return err
		}
		if err := unix.Unlinkat(from, name, unix.AT_REMOVEDIR); err == nil || gone(err) {
			return nil
		}
		f.openToGroup(from, name) // moving a directory writes its ".."
		return unix.Renameat(from, name, at, temporaryName())
	})
	if err != nil {
		return err
	}
	return unix.Unlinkat(at, name, unix.AT_REMOVEDIR)
}

// each calls fn for every name in a directory until there is none, or none that fn could
// do anything about. Somebody else may make them faster than fn removes them: that ends
// with ctx.
func each(ctx context.Context, d *os.File, fn func(name string) error) error {
	for {
		if _, err := d.Seek(0, 0); err != nil {
			return err
		}
		progress := false
		var failed error
		for {
			names, err := d.Readdirnames(1000)
			if len(names) == 0 {
				if err != nil && progress {
					break
				}
				return failed
			}
			for _, name := range names {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := fn(name); err != nil && !gone(err) {
					failed = err
				} else {
					progress = true
				}
			}
		}
		if failed != nil {
			return failed
		}
	}
}

// openUp opens a directory for listing, opening it to the group first where needed.
func (f *FS) openUp(dir int, name string) (*os.File, error) {
	f.openToGroup(dir, name)
	return openDir(dir, name)
}

// openToGroup gives the group of all programs what it needs of a program's directory or
// file, as its owner.
func (f *FS) openToGroup(dir int, name string) {
	st, err := lstat(dir, name)
	if err != nil || !f.Programs(int(st.Uid)) {
		return
	}
	if want, ok := mended(&st); ok {
		// A name that became a link meanwhile leads where its owner may go.
		_ = kernel.As(int(st.Uid), f.GID, func() error { return unix.Fchmodat(dir, name, want, 0) })
	}
}

// mended is the mode that a program's file or directory should have on disk, and whether
// that is another than it has.
func mended(st *unix.Stat_t) (uint32, bool) {
	m := st.Mode & 0o7777
	var want uint32
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		want = m&0o007 | 0o2770 // and not sticky
	case unix.S_IFREG:
		want = (m|0o400)&^0o070 | (m|0o400)>>3&0o070
	default:
		return 0, false
	}
	return want, want != m
}
