package rootfs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

// maxLinks is how many symbolic links a path may pass, as on Linux.
const maxLinks = 40

// clean turns a guest path into one for os.Root, or refuses it.
func (f *FS) clean(p string) (string, esys.Errno) {
	if strings.IndexByte(p, 0) >= 0 {
		return "", esys.EINVAL
	}
	if len(p) > f.quota.limits.PathBytes {
		return "", esys.ENAMETOOLONG
	}
	// wazero hands over paths relative to the mount; a leading slash means
	// the mount itself and never the host's root.
	p = path.Clean(strings.TrimLeft(p, "/"))
	if p == ".." || strings.HasPrefix(p, "../") {
		return "", esys.EPERM
	}
	if depth(p) > f.quota.limits.Depth {
		return "", esys.ENAMETOOLONG
	}
	return p, 0
}

// depth counts the components of a clean path.
func depth(p string) int {
	if p == "." || p == "" {
		return 0
	}
	return strings.Count(p, "/") + 1
}

// errLinks says that a path has more links than maxLinks.
var errLinks = errors.New("too many symbolic links")

// physical resolves the links in the directory p, so that limits on depth hold
// for the tree and not only for how a path is spelled. It is a limit and not a
// guard: what leaves the root is refused by os.Root when the path is used.
func physical(root *os.Root, p string) (string, error) {
	var done []string
	todo := strings.Split(p, "/")
	links := 0
	for len(todo) > 0 {
		c := todo[0]
		todo = todo[1:]
		switch c {
		case "", ".":
			continue
		case "..":
			if len(done) == 0 {
				return "", fs.ErrPermission
			}
			done = done[:len(done)-1]
			continue
		}
		next := path.Join(path.Join(done...), c)
		info, err := root.Lstat(next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = append(done, c)
			continue
		}
		if links++; links > maxLinks {
			return "", errLinks
		}
		target, err := root.Readlink(next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(target) {
			return "", fs.ErrPermission
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	if len(done) == 0 {
		return ".", nil
	}
	return path.Join(done...), nil
}

// place resolves the parent of p and returns the path that a directory made at
// p really has, after checking it against the limits together with a subtree
// of the given height and longest relative path.
func (f *FS) place(p string, height, longest int) (string, esys.Errno) {
	dir, err := physical(f.root, path.Dir(p))
	if err != nil {
		return "", toErrno(err)
	}
	at := path.Join(dir, path.Base(p))
	l := f.quota.limits
	if depth(at)+height > l.Depth || len(at)+longest > l.PathBytes {
		return "", esys.ENAMETOOLONG
	}
	return at, 0
}

// extent returns how deep the tree below the directory p is and how long its
// longest relative path is, slash included. Links count as entries only.
func extent(root *os.Root, p string) (height, longest int, err error) {
	err = walk(context.Background(), root, p, func(name string, _ fs.DirEntry) error {
		rel := strings.TrimPrefix(name, p+"/")
		height = max(height, depth(rel))
		longest = max(longest, len(rel)+1)
		return nil
	})
	return height, longest, err
}

// walkBatch is how many entries of a directory are held at a time.
const walkBatch = 512

// walk calls fn for everything below the directory p, with the path from the root, in
// no order. Unlike fs.WalkDir it takes any name, UTF-8 or not, and follows no link,
// not even one that takes the place of a directory meanwhile. What goes away is left
// out.
func walk(ctx context.Context, root *os.Root, p string, fn func(name string, d fs.DirEntry) error) error {
	todo := []string{p}
	for len(todo) > 0 {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		f, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			if dir != p && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)) {
				continue
			}
			return err
		}
		for {
			if err = ctx.Err(); err != nil {
				break
			}
			var list []fs.DirEntry
			list, err = f.ReadDir(walkBatch)
			for _, d := range list {
				name := d.Name()
				if dir != "." {
					name = dir + "/" + name
				}
				if err := fn(name, d); err != nil {
					f.Close()
					return err
				}
				if d.IsDir() {
					todo = append(todo, name)
				}
			}
			if err != nil {
				break
			}
		}
		f.Close()
		if !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) { // it was removed
			return err
		}
	}
	return nil
}
