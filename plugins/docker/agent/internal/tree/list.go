//go:build linux

package tree

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/sdk/backend/changes"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Defaults of a walk.
const (
	DefaultEntries     = 10_000
	DefaultDepth       = 64
	DefaultDigestBytes = 1 << 30
)

// WalkOptions are those of backend.WalkRequest.
type WalkOptions struct {
	MaxEntries, MaxDepth int
	Digests              bool
	MaxDigestBytes       int64
	Exclude              []string
}

// openDir opens a directory for listing.
func openDir(dir int, name string) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// Not every kernel refuses a link here: gVisor's of 2022 follows it.
	var opened unix.Stat_t
	named, err := lstat(dir, name)
	if err == nil {
		err = unix.Fstat(fd, &opened)
	}
	if err == nil && (named.Dev != opened.Dev || named.Ino != opened.Ino) {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// List lists one directory in lexical order.
func (f *FS) List(ctx context.Context, dirPath string) (all []files.Entry, err error) {
	err = f.as(ctx, func() error {
		return at(dirPath, false, func(dir int, name string) error {
			d, err := openDir(dir, name)
			if err != nil {
				return err
			}
			defer d.Close()
			list, truncated, err := f.children(d, dirPath)
			if err == nil && truncated {
				err = ErrTooMany
			}
			all = list
			return err
		})
	})
	return all, err
}

// maxChildren is how many names of one directory are looked at: they are in memory.
const maxChildren = 100_000

// children describes what is in a directory, or as much as is looked at.
func (f *FS) children(d *os.File, dirPath string) (all []files.Entry, truncated bool, err error) {
	var names []string
	for {
		some, err := d.Readdirnames(1000)
		if names = append(names, some...); len(names) > maxChildren {
			names, truncated = names[:maxChildren], true
			break
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	slices.Sort(names)
	list := make([]files.Entry, 0, len(names))
	for _, name := range names {
		if !listed(name) {
			continue
		}
		st, err := lstat(int(d.Fd()), name)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		list = append(list, f.entry(path.Join(dirPath, name), &st))
	}
	return list, truncated, nil
}

// Walk lists what is below root, depth first in lexical order. Digests come from index
// where root is within its directory, which is files.DataDir.
func (f *FS) Walk(ctx context.Context, root string, o WalkOptions, index *changes.Index) (list []files.Entry, truncated bool, err error) {
	o.MaxEntries = cmp.Or(o.MaxEntries, DefaultEntries)
	o.MaxDepth = min(cmp.Or(o.MaxDepth, DefaultDepth), 4*DefaultDepth)
	o.MaxDigestBytes = cmp.Or(o.MaxDigestBytes, DefaultDigestBytes)
	w := &walk{fs: f, ctx: ctx, o: o, index: index}
	err = f.as(ctx, func() error {
		if o.Digests {
			if w.root, err = os.OpenRoot(cmp.Or(rootOf(root), root)); err != nil {
				return err
			}
			defer w.root.Close()
			w.base = w.root.Name()
			if w.base != files.DataDir {
				w.index = new(changes.Index)
			}
		}
		return at(root, false, func(dir int, name string) error {
			return w.dir(dir, name, root, 1)
		})
	})
	return w.list, w.truncated, err
}

// rootOf is the directory that digests are kept for, when path is in it.
func rootOf(path string) string {
	if files.Within(files.DataDir, path) {
		return files.DataDir
	}
	return ""
}

type walk struct {
	fs        *FS
	ctx       context.Context
	o         WalkOptions
	index     *changes.Index
	root      *os.Root
	base      string
	list      []files.Entry
	truncated bool
}

func (w *walk) dir(dir int, name, at string, depth int) error {
	d, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer d.Close()
	children, truncated, err := w.fs.children(d, at)
	if err != nil {
		return err
	}
	w.truncated = w.truncated || truncated
	for _, e := range children {
		if err := w.ctx.Err(); err != nil {
			return context.Cause(w.ctx)
		}
		base := path.Base(e.Path)
		if files.Excluded(w.o.Exclude, base) {
			continue
		}
		if depth > w.o.MaxDepth || len(w.list) >= w.o.MaxEntries {
			w.truncated = true
			return nil
		}
		if e.Type == files.EntryFile && w.o.Digests {
			rel := strings.TrimPrefix(strings.TrimPrefix(e.Path, w.base), "/")
			switch got, err := w.index.Digest(w.ctx, w.root, rel, w.o.MaxDigestBytes); {
			case err == nil:
				e.Size, e.SHA256 = got.Size, got.SHA256
			case w.ctx.Err() != nil:
				return context.Cause(w.ctx)
			} // else it has just vanished, or cannot be read: no digest
		}
		w.list = append(w.list, e)
		if e.Type != files.EntryDir {
			continue
		}
		err := w.dir(int(d.Fd()), base, e.Path, depth+1)
		if err != nil && !gone(err) && !errors.Is(err, unix.EACCES) {
			return err
		}
	}
	return nil
}

// gone reports whether an error says that something is not there any more.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
