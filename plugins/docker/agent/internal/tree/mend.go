//go:build linux

package tree

import (
	"context"
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/sdk/backend/changes"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Bounds of mending: what is beyond keeps the modes that its program gave it.
const (
	mendEntries = 200_000
	mendDepth   = 200
	// scanDepth is how deep changes are looked for; it costs time by its square.
	scanDepth = 64
)

// Mend opens what programs made below root to the group, and to their owners, so that the
// host and later programs can use it.
func (f *FS) Mend(ctx context.Context, root string) error {
	left := mendEntries
	return f.as(ctx, func() error {
		return at(root, false, func(dir int, name string) error {
			d, err := openDir(dir, name)
			if err != nil {
				return err
			}
			defer d.Close()
			return f.mend(ctx, d, 1, &left)
		})
	})
}

func (f *FS) mend(ctx context.Context, d *os.File, depth int, left *int) error {
	for {
		names, err := d.ReadDir(1000)
		if len(names) == 0 {
			return nil // also where reading failed: the rest is what it was
		}
		for _, de := range names {
			if *left--; *left < 0 || ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if t := de.Type(); !t.IsDir() && !t.IsRegular() {
				continue
			}
			f.openToGroup(int(d.Fd()), de.Name())
			if !de.IsDir() || depth >= mendDepth {
				continue
			}
			sub, err := openDir(int(d.Fd()), de.Name())
			if err != nil {
				continue
			}
			err = f.mend(ctx, sub, depth+1, left)
			_ = sub.Close()
			if err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// Scan reads files.DataDir for what changes.Diff compares.
func (f *FS) Scan(ctx context.Context, index *changes.Index, o changes.ScanOptions) (s *changes.Snapshot, err error) {
	o.Exclude = append(slices.Clip(o.Exclude), "*"+temporary)
	o.MaxDepth = scanDepth
	err = f.as(ctx, func() error {
		// A search holds the names of whole directories: first see that there is room.
		left := maxChildren
		if err := at(files.DataDir, false, func(dir int, name string) error { return count(ctx, dir, name, 1, &left) }); err != nil {
			return err
		}
		root, err := os.OpenRoot(files.DataDir)
		if err != nil {
			return err
		}
		defer root.Close()
		s, err = index.Scan(ctx, root, o)
		return err
	})
	return s, err
}

// count fails when there are more entries below a directory than left.
func count(ctx context.Context, dir int, name string, depth int, left *int) error {
	d, err := openDir(dir, name)
	if err != nil {
		return nil // it has gone, or is closed; nobody else will look into it
	}
	defer d.Close()
	for {
		list, err := d.ReadDir(1000)
		if *left -= len(list); *left < 0 {
			return ErrTooMany
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, de := range list {
			if de.IsDir() && depth < scanDepth {
				if err := count(ctx, int(d.Fd()), de.Name(), depth+1, left); err != nil {
					return err
				}
			}
		}
		if err != nil || len(list) == 0 {
			return nil
		}
	}
}

// scratch are the directories that anybody may write and that are nobody's data.
var scratch = []string{"/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock"}

// Clean removes what a user left in the directories that everybody may write, or as much
// of it as there is time for.
func (f *FS) Clean(ctx context.Context, uid int) error {
	var failed error
	for _, root := range scratch {
		err := kernel.As(uid, f.GID, func() error {
			return at(root, false, func(dir int, name string) error {
				d, err := openDir(dir, name)
				if err != nil {
					return err
				}
				defer d.Close()
				return f.cleanIn(ctx, d, uid)
			})
		})
		// What is not there, or not a directory that programs may list, holds nothing.
		if err != nil && !gone(err) && !errors.Is(err, unix.EACCES) {
			failed = err
		}
	}
	return failed
}

func (f *FS) cleanIn(ctx context.Context, d *os.File, uid int) error {
	var failed error
	for {
		names, err := d.Readdirnames(1000)
		if len(names) == 0 {
			return failed
		}
		for _, name := range names {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			st, err := lstat(int(d.Fd()), name)
			if err != nil || int(st.Uid) != uid {
				continue
			}
			if err := f.remove(ctx, int(d.Fd()), name); err != nil && !gone(err) {
				failed = err
			}
		}
		if err != nil {
			return failed
		}
	}
}

// Usage adds up the regular files below root: their bytes on disk, and how many there are.
func (f *FS) Usage(ctx context.Context, root string) (bytes, n int64) {
	_ = f.as(ctx, func() error {
		return at(root, false, func(dir int, name string) error {
			d, err := openDir(dir, name)
			if err != nil {
				return err
			}
			defer d.Close()
			usage(ctx, d, 1, &bytes, &n)
			return nil
		})
	})
	return bytes, n
}

func usage(ctx context.Context, d *os.File, depth int, bytes, n *int64) {
	for ctx.Err() == nil { // a program may fill it all the while
		names, err := d.ReadDir(1000)
		for _, de := range names {
			st, err := lstat(int(d.Fd()), de.Name())
			if err != nil {
				continue
			}
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG:
				*bytes += st.Blocks * 512
				*n++
			case unix.S_IFDIR:
				if depth >= mendDepth {
					continue
				}
				if sub, err := openDir(int(d.Fd()), de.Name()); err == nil {
					usage(ctx, sub, depth+1, bytes, n)
					_ = sub.Close()
				}
			}
		}
		if err != nil || len(names) == 0 {
			return
		}
	}
}
