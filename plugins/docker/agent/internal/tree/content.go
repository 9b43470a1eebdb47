//go:build linux

package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Open opens a regular file for reading. Its descriptor is all that is needed from then on.
func (f *FS) Open(ctx context.Context, path string) (file *os.File, e files.Entry, err error) {
	err = f.as(ctx, func() error {
		return at(path, false, func(dir int, name string) error {
			// A pipe must not block, a terminal not become ours.
			fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
			switch {
			case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO): // a link, a socket
				return ErrNotRegular
			case err != nil:
				return err
			}
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
				_ = unix.Close(fd)
				return errors.Join(err, ErrNotRegular)
			}
			_ = unix.SetNonblock(fd, false)
			file, e = os.NewFile(uintptr(fd), path), f.entry(path, &st)
			return nil
		})
	})
	return file, e, err
}

// WriteOptions of Create.
type WriteOptions struct {
	// Mode is as it will be reported; 0 means 0644.
	Mode uint32
	// MaxBytes refuses longer content with ErrTooLarge; 0 does not.
	MaxBytes int64
	// Exclusive refuses an existing path.
	Exclusive bool
	// SHA256 refuses other content with ErrDigest; empty takes any.
	SHA256 string
}

// Writing is a file that is being written beside its place.
type Writing struct {
	fs       *FS
	path     string
	dir      int
	tmp      string
	name     string
	file     *os.File
	opts     WriteOptions
	sum      hash.Hash
	n        int64
	finished bool
}

// Create begins to replace the regular file at path; parents are made. Nothing is
// replaced before Commit. Abort, which may follow Commit, releases what is held.
func (f *FS) Create(ctx context.Context, path string, opts WriteOptions) (*Writing, error) {
	w := &Writing{fs: f, path: path, dir: -1, tmp: temporaryName(), opts: opts, sum: sha256.New()}
	if opts.Mode == 0 {
		w.opts.Mode = 0o644
	}
	err := f.as(ctx, func() error {
		dir, name := split(path)
		fd, err := hold(dir, true)
		if err != nil {
			return err
		}
		w.dir, w.name = fd, name
		if err := w.free(); err != nil {
			return err
		}
		out, err := unix.Openat(fd, w.tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		w.file = os.NewFile(uintptr(out), path)
		return nil
	})
	if err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

// free reports what is in the way, as far as it can be seen before there is content.
func (w *Writing) free() error {
	st, err := lstat(w.dir, w.name)
	switch {
	case w.name == "" || err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return unix.EISDIR
	case err == nil && w.opts.Exclusive:
		return unix.EEXIST
	}
	return nil
}

// Write appends content.
func (w *Writing) Write(p []byte) (int, error) {
	if w.opts.MaxBytes > 0 && w.n+int64(len(p)) > w.opts.MaxBytes {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, w.opts.MaxBytes)
	}
	n, err := w.file.Write(p)
	w.sum.Write(p[:n])
	w.n += int64(n)
	return n, err
}

// Size is how much was written.
func (w *Writing) Size() int64 { return w.n }

// SetMode changes what Mode was asked for; 0 changes nothing.
func (w *Writing) SetMode(mode uint32) {
	if mode != 0 {
		w.opts.Mode = mode
	}
}

// Commit puts the file in its place, at once as far as anybody can see.
func (w *Writing) Commit(ctx context.Context) (e files.Entry, err error) {
	sum := hex.EncodeToString(w.sum.Sum(nil))
	if w.opts.SHA256 != "" && w.opts.SHA256 != sum {
		return e, ErrDigest
	}
	err = w.fs.as(ctx, func() error {
		fd := int(w.file.Fd())
		if err := unix.Fchmod(fd, diskMode(w.opts.Mode)); err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if w.opts.Exclusive {
			if err := unix.Linkat(w.dir, w.tmp, w.dir, w.name, 0); err != nil {
				return err
			}
		} else {
			if err := unix.Renameat(w.dir, w.tmp, w.dir, w.name); err != nil {
				return err
			}
			w.finished = true
		}
		e = w.fs.entry(w.path, &st)
		e.SHA256 = sum
		return nil
	})
	return e, err
}

// Abort releases what is held, and removes what was not committed.
func (w *Writing) Abort() {
	if w.file != nil {
		_ = w.file.Close()
		if !w.finished {
			_ = w.fs.as(context.Background(), func() error { return unix.Unlinkat(w.dir, w.tmp, 0) })
		}
		w.file = nil
	}
	if w.dir >= 0 {
		_ = unix.Close(w.dir)
		w.dir = -1
	}
}

// Copy writes content from r to its end.
func (w *Writing) Copy(r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{w}, r, make([]byte, 64<<10))
	return err
}
