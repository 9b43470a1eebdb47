package clang

import (
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// tree is a read-only file system in memory. It is immutable, so that runs share
// it. Every file has a number of its own: the compiler takes files with the same
// number for the same file.
type tree struct {
	esys.UnimplementedFS
	nodes map[string]*node // by clean path; "." is the root
}

// node is a file or a directory.
type node struct {
	stat    sys.Stat_t
	content []byte
	entries []esys.Dirent // of a directory, sorted
}

// fileTime is that of every file: precompiled headers record it.
const fileTime = 1_000_000_000

// newTree makes a tree of files by their paths, which fs.ValidPath accepts. device
// tells the files of one tree from those of another. The contents are not copied.
func newTree(device uint64, files map[string][]byte) *tree {
	t := &tree{nodes: map[string]*node{}}
	t.add(".", device, fs.ModeDir|0o555, nil)
	for _, p := range slices.Sorted(maps.Keys(files)) {
		t.add(p, device, 0o444, files[p])
	}
	for _, n := range t.nodes {
		slices.SortFunc(n.entries, func(a, b esys.Dirent) int { return strings.Compare(a.Name, b.Name) })
	}
	return t
}

// add adds a node, and the directories above it.
func (t *tree) add(p string, device uint64, mode fs.FileMode, content []byte) *node {
	if n := t.nodes[p]; n != nil {
		return n
	}
	n := &node{content: content, stat: sys.Stat_t{
		Dev: device, Ino: sys.Inode(len(t.nodes) + 1), Nlink: 1, Mode: mode, Size: int64(len(content)),
		Atim: fileTime, Mtim: fileTime, Ctim: fileTime,
	}}
	t.nodes[p] = n
	if p != "." {
		dir := t.add(path.Dir(p), device, fs.ModeDir|0o555, nil)
		dir.entries = append(dir.entries, esys.Dirent{Ino: n.stat.Ino, Name: path.Base(p), Type: mode.Type()})
	}
	return n
}

// has reports whether there is a file of that path.
func (t *tree) has(p string) bool {
	n := t.nodes[path.Clean(p)]
	return n != nil && !n.stat.Mode.IsDir()
}

// find resolves a path as wazero gives it: relative to the root, perhaps with a
// slash in front.
func (t *tree) find(p string) (*node, esys.Errno) {
	if p = strings.TrimPrefix(path.Clean("/"+p), "/"); p == "" {
		p = "."
	}
	n := t.nodes[p]
	if n == nil {
		return nil, esys.ENOENT
	}
	return n, 0
}

// Stat implements experimental/sys.FS.
func (t *tree) Stat(p string) (sys.Stat_t, esys.Errno) {
	n, errno := t.find(p)
	if errno != 0 {
		return sys.Stat_t{}, errno
	}
	return n.stat, 0
}

// Lstat is Stat: there are no links.
func (t *tree) Lstat(p string) (sys.Stat_t, esys.Errno) { return t.Stat(p) }

// Readlink implements experimental/sys.FS.
func (t *tree) Readlink(p string) (string, esys.Errno) {
	if _, errno := t.find(p); errno != 0 {
		return "", errno
	}
	return "", esys.EINVAL
}

// OpenFile opens for reading only.
func (t *tree) OpenFile(p string, flag esys.Oflag, _ fs.FileMode) (esys.File, esys.Errno) {
	n, errno := t.find(p)
	switch {
	case flag&(esys.O_CREAT|esys.O_TRUNC|esys.O_WRONLY|esys.O_RDWR) != 0:
		return nil, esys.EROFS
	case errno != 0:
		return nil, errno
	case flag&esys.O_DIRECTORY != 0 && !n.stat.Mode.IsDir():
		return nil, esys.ENOTDIR
	}
	return &treeFile{node: n}, 0
}

// treeFile is an open file or directory of a tree.
type treeFile struct {
	esys.UnimplementedFile
	node *node
	pos  int64 // of a directory, in entries
}

func (f *treeFile) Stat() (sys.Stat_t, esys.Errno) { return f.node.stat, 0 }
func (f *treeFile) Dev() (uint64, esys.Errno)      { return f.node.stat.Dev, 0 }
func (f *treeFile) Ino() (sys.Inode, esys.Errno)   { return f.node.stat.Ino, 0 }
func (f *treeFile) IsDir() (bool, esys.Errno)      { return f.node.stat.Mode.IsDir(), 0 }
func (f *treeFile) Close() esys.Errno              { return 0 }

func (f *treeFile) Pread(b []byte, off int64) (int, esys.Errno) {
	switch {
	case f.node.stat.Mode.IsDir():
		return 0, esys.EISDIR
	case off < 0:
		return 0, esys.EINVAL
	case off >= int64(len(f.node.content)):
		return 0, 0
	}
	return copy(b, f.node.content[off:]), 0
}

func (f *treeFile) Read(b []byte) (int, esys.Errno) {
	n, errno := f.Pread(b, f.pos)
	f.pos += int64(n)
	return n, errno
}

// offset is int64. The name keeps vet from taking Seek, whose results wazero's
// interface prescribes, for a failed io.Seeker.
type offset = int64

func (f *treeFile) Seek(off offset, whence int) (int64, esys.Errno) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		off += f.pos
	case io.SeekEnd:
		off += f.node.stat.Size
	default:
		return 0, esys.EINVAL
	}
	if off < 0 || f.node.stat.Mode.IsDir() && off != 0 {
		return 0, esys.EINVAL
	}
	f.pos = off
	return off, 0
}

func (f *treeFile) Readdir(n int) ([]esys.Dirent, esys.Errno) {
	if !f.node.stat.Mode.IsDir() {
		return nil, esys.ENOTDIR
	}
	rest := f.node.entries[min(f.pos, int64(len(f.node.entries))):]
	if n > 0 && n < len(rest) {
		rest = rest[:n]
	}
	f.pos += int64(len(rest))
	return rest, 0
}
