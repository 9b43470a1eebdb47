package clang

import (
	"io/fs"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// numbered gives the files of a file system numbers in the order in which they are
// met, and all of them the same times. The compiler looks files up by number, so that
// what it uses would differ from run to run otherwise. It is for one run.
type numbered struct {
	esys.FS
	device uint64
	seen   map[sys.Inode]sys.Inode
}

func newNumbered(fs esys.FS, device uint64) *numbered {
	return &numbered{fs, device, map[sys.Inode]sys.Inode{}}
}

// shown is what the compiler is told of a file.
func (n *numbered) shown(st sys.Stat_t) sys.Stat_t {
	number, ok := n.seen[st.Ino]
	if !ok {
		number = sys.Inode(len(n.seen) + 1)
		n.seen[st.Ino] = number
	}
	st.Dev, st.Ino = n.device, number
	st.Atim, st.Mtim, st.Ctim = fileTime, fileTime, fileTime
	return st
}

// Stat implements experimental/sys.FS.
func (n *numbered) Stat(p string) (sys.Stat_t, esys.Errno) {
	st, errno := n.FS.Stat(p)
	if errno != 0 {
		return st, errno
	}
	return n.shown(st), 0
}

// Lstat implements experimental/sys.FS.
func (n *numbered) Lstat(p string) (sys.Stat_t, esys.Errno) {
	st, errno := n.FS.Lstat(p)
	if errno != 0 {
		return st, errno
	}
	return n.shown(st), 0
}

// OpenFile implements experimental/sys.FS.
func (n *numbered) OpenFile(p string, flag esys.Oflag, perm fs.FileMode) (esys.File, esys.Errno) {
	f, errno := n.FS.OpenFile(p, flag, perm)
	if errno != 0 {
		return nil, errno
	}
	return numberedFile{f, n}, 0
}

// numberedFile is an open file.
type numberedFile struct {
	esys.File
	fs *numbered
}

func (f numberedFile) Stat() (sys.Stat_t, esys.Errno) {
	st, errno := f.File.Stat()
	if errno != 0 {
		return st, errno
	}
	return f.fs.shown(st), 0
}

func (f numberedFile) Dev() (uint64, esys.Errno)    { return f.fs.device, 0 }
func (f numberedFile) Ino() (sys.Inode, esys.Errno) { st, errno := f.Stat(); return st.Ino, errno }
