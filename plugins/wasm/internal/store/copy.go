package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"golang.org/x/sys/unix"
)

// copyTree copies what is below src into the empty dst: bytes, modes, times,
// symbolic links as they are spelled, hard links as such, holes as holes. Anything
// else, pipes and devices, is left out. No link is followed and nothing outside src
// can be reached, whoever changes it meanwhile. What is more than the limits is an
// error that wraps rootfs.ErrQuota or rootfs.ErrPath.
//
// Where the file system can, files share their blocks until one of them is
// written; elsewhere the kernel copies.
func copyTree(ctx context.Context, dst, src *os.Root, limits rootfs.Limits) (bytes, entries int64, err error) {
	c := copier{ctx: ctx, top: dst, limits: rootfs.NewQuota(limits).Limits(), linked: map[node]string{}}
	if err := c.dir(dst, src, "", 0); err != nil {
		return 0, 0, fmt.Errorf("copy files: %w", err)
	}
	return c.bytes, c.entries, nil
}

type copier struct {
	ctx            context.Context
	top            *os.Root
	limits         rootfs.Limits
	bytes, entries int64
	noClone        bool            // the file system cannot share blocks
	linked         map[node]string // the first copy of files with several names
}

// node identifies a file of the source.
type node struct{ dev, ino uint64 }

// dir copies what is in src, which is at the path at below the top.
func (c *copier) dir(dst, src *os.Root, at string, depth int) error {
	from, err := src.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := dst.Open(".")
	if err != nil {
		return err
	}
	defer to.Close()
	for {
		list, err := from.Readdirnames(256)
		for _, name := range list {
			if err := c.entry(dst, src, to, at, name, depth+1); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// looks is how often a name is looked at that stands for something else each time.
const looks = 100

// entry copies what one name stands for; what takes its place meanwhile is copied instead.
func (c *copier) entry(dst, src *os.Root, to *os.File, at, name string, depth int) error {
	for range looks {
		if err := c.once(dst, src, to, at, name, depth); !errors.Is(err, errChanged) {
			return err
		}
		c.entries--
	}
	return nil
}

func (c *copier) once(dst, src *os.Root, to *os.File, at, name string, depth int) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	info, err := src.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it went away
	}
	if err != nil {
		return err
	}
	p := at + name
	if depth > c.limits.Depth || len(p) > c.limits.PathBytes {
		return rootfs.ErrPath
	}
	if c.entries++; c.entries > c.limits.Entries {
		return fmt.Errorf("%w: more than %d entries", rootfs.ErrQuota, c.limits.Entries)
	}
	switch info.Mode().Type() {
	case 0:
		err = c.file(dst, src, p, name, info)
	case fs.ModeDir:
		err = c.subdir(dst, src, p, name, info, depth)
	case fs.ModeSymlink:
		var target string
		if target, err = src.Readlink(name); err != nil {
			err = changed(src, name, info, err)
			break
		}
		err = dst.Symlink(target, name)
	default: // no file
		c.entries--
		return nil
	}
	if err != nil {
		return err
	}
	return setTimes(to, name, info)
}

// errChanged says that a name stands for something else by now, and that nothing was
// copied.
var errChanged = errors.New("changed meanwhile")

func (c *copier) subdir(dst, src *os.Root, p, name string, info fs.FileInfo, depth int) error {
	from, err := src.OpenRoot(name)
	if err != nil {
		return changed(src, name, info, err)
	}
	defer from.Close()
	if now, err := from.Stat("."); err != nil || !os.SameFile(info, now) {
		return errChanged // a link by now
	}
	if err := dst.Mkdir(name, 0o700); err != nil {
		return err
	}
	to, err := dst.OpenRoot(name)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := c.dir(to, from, p+"/", depth); err != nil {
		return err
	}
	return dst.Chmod(name, info.Mode().Perm()|0o700)
}

// changed turns an error of opening or reading what info describes into errChanged
// when the name stands for something else by now: it is not the disk's error then.
func changed(src *os.Root, name string, info fs.FileInfo, err error) error {
	for _, cause := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.EINVAL} {
		if errors.Is(err, cause) {
			return errChanged
		}
	}
	// os.Root's refusal of what leads out has no number; a file or a directory does
	// not lead out.
	var number syscall.Errno
	if !errors.As(err, &number) {
		return errChanged
	}
	if now, again := src.Lstat(name); again != nil || !os.SameFile(info, now) {
		return errChanged
	}
	return err
}

func (c *copier) file(dst, src *os.Root, p, name string, want fs.FileInfo) error {
	in, err := src.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return changed(src, name, want, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || !os.SameFile(want, info) {
		return errChanged
	}
	st := info.Sys().(*syscall.Stat_t)
	id := node{uint64(st.Dev), uint64(st.Ino)}
	if first, ok := c.linked[id]; ok {
		return c.top.Link(first, p)
	}
	if c.bytes += info.Size(); c.bytes > c.limits.Bytes {
		return fmt.Errorf("%w: more than %d bytes", rootfs.ErrQuota, c.limits.Bytes)
	}
	out, err := dst.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = c.content(out, in, info.Size())
	if err == nil {
		err = out.Chmod(info.Mode().Perm() | 0o600)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if st.Nlink > 1 {
		c.linked[id] = p
	}
	return nil
}

// minClone is the size from which sharing blocks is worth it: the kernel writes what
// was not written yet to the disk first.
const minClone = 64 << 10

// content copies size bytes of in, whose position is at its start.
func (c *copier) content(out, in *os.File, size int64) error {
	if size == 0 {
		return nil
	}
	if !c.noClone && size >= minClone {
		err := cloneFile(out, in)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		c.noClone = true
	}
	return copyData(c.ctx, out, in, size)
}

// copyStep is how much is copied between two looks at the context.
const copyStep = 16 << 20

// copyRange copies the bytes of in from off to end to the same place in out. A
// file that has become shorter leaves the rest a hole.
func copyRange(ctx context.Context, out, in *os.File, off, end int64) error {
	for off < end {
		if err := ctx.Err(); err != nil {
			return err
		}
		step := min(end-off, copyStep)
		// Both positions are set each time: io.Copy lets the kernel copy between
		// files, from where they are.
		if _, err := in.Seek(off, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(off, io.SeekStart); err != nil {
			return err
		}
		n, err := io.CopyN(out, in, step)
		off += n
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setTimes gives a copy the modification time of its original, links included.
func setTimes(dir *os.File, name string, info fs.FileInfo) error {
	at := unix.NsecToTimespec(info.ModTime().UnixNano())
	return unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}
