//go:build linux

package tree

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxWatches bounds the directories that one watch looks at.
const maxWatches = 4096

// Watch looks at directories.
type Watch struct {
	fs        *FS
	file      *os.File
	fd        int
	recursive bool
	dirs      map[int32]string
}

// Watch begins to look at a directory, and with recursive at those below it. What is
// below a link is not looked at.
func (f *FS) Watch(ctx context.Context, dir string, recursive bool) (*Watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &Watch{fs: f, file: os.NewFile(uintptr(fd), "inotify"), fd: fd, recursive: recursive, dirs: make(map[int32]string)}
	if err := f.as(ctx, func() error { return w.add(dir, 1) }); err != nil {
		_ = w.Close()
		return nil, err
	}
	return w, nil
}

// Close ends a watch.
func (w *Watch) Close() error { return w.file.Close() }

const watchMask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_ATTRIB | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW | unix.IN_EXCL_UNLINK

// add looks at a directory that was reached without following a link: the descriptor
// decides, not the name.
func (w *Watch) add(dir string, depth int) error {
	fd, err := hold(dir, false)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	d, err := openDir(fd, ".")
	if err != nil {
		return err
	}
	defer d.Close()
	if len(w.dirs) >= maxWatches {
		return unix.ENOSPC
	}
	// Through the descriptor: IN_DONT_FOLLOW would take this very link.
	wd, err := unix.InotifyAddWatch(w.fd, "/proc/self/fd/"+strconv.Itoa(int(d.Fd())), watchMask&^unix.IN_DONT_FOLLOW)
	if err != nil {
		return err
	}
	w.dirs[int32(wd)] = dir
	if !w.recursive || depth >= mendDepth {
		return nil
	}
	children, _, err := w.fs.children(d, dir)
	if err != nil {
		return nil
	}
	for _, c := range children {
		if c.Type == "dir" {
			_ = w.add(c.Path, depth+1) // it has gone, or is closed to us
		}
	}
	return nil
}

// Run calls fn for every change until ctx ends or fn fails.
func (w *Watch) Run(ctx context.Context, fn func(path, op string) error) error {
	defer context.AfterFunc(ctx, func() { _ = w.file.Close() })()
	buf := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buf)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			mask := binary.NativeEndian.Uint32(b[4:])
			size := binary.NativeEndian.Uint32(b[12:])
			name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+int(size)], "\x00"))
			b = b[unix.SizeofInotifyEvent+int(size):]
			if err := w.event(ctx, wd, mask, name, fn); err != nil {
				return err
			}
		}
	}
}

func (w *Watch) event(ctx context.Context, wd int32, mask uint32, name string, fn func(path, op string) error) error {
	dir, ok := w.dirs[wd]
	if mask&unix.IN_IGNORED != 0 {
		delete(w.dirs, wd)
		return nil
	}
	if !ok || name == "" || !listed(name) {
		return nil
	}
	p := path.Join(dir, name)
	if w.recursive && mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0 {
		_ = w.fs.as(ctx, func() error { return w.add(p, 1) })
	}
	op := ""
	switch {
	case mask&unix.IN_CREATE != 0, mask&unix.IN_MOVED_TO != 0:
		op = "create"
	case mask&unix.IN_MODIFY != 0:
		op = "write"
	case mask&unix.IN_DELETE != 0:
		op = "remove"
	case mask&unix.IN_MOVED_FROM != 0:
		op = "rename"
	case mask&unix.IN_ATTRIB != 0:
		op = "chmod"
	}
	return fn(p, op)
}
