package clang

import (
	"io/fs"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// sink is a directory with one file that keeps what is written to it, up to a
// limit. It says that it is a device, so that the linker writes to it directly,
// where it would make, map and rename a file otherwise.
type sink struct {
	esys.UnimplementedFS
	name string
	max  int

	content []byte
	full    bool
}

// sinkDevice tells the sink's file from those of trees.
const sinkDevice = 99

// Stat implements experimental/sys.FS.
func (s *sink) Stat(p string) (sys.Stat_t, esys.Errno) {
	switch p {
	case "", ".", "/":
		return sys.Stat_t{Dev: sinkDevice, Ino: 1, Nlink: 1, Mode: fs.ModeDir | 0o755}, 0
	case s.name:
		return sys.Stat_t{Dev: sinkDevice, Ino: 2, Nlink: 1, Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}, 0
	}
	return sys.Stat_t{}, esys.ENOENT
}

// Lstat is Stat: there are no links.
func (s *sink) Lstat(p string) (sys.Stat_t, esys.Errno) { return s.Stat(p) }

// OpenFile opens the directory or the file; to open the file for writing empties it.
func (s *sink) OpenFile(p string, flag esys.Oflag, _ fs.FileMode) (esys.File, esys.Errno) {
	st, errno := s.Stat(p)
	if errno != 0 {
		return nil, errno
	}
	if !st.Mode.IsDir() && flag&(esys.O_WRONLY|esys.O_RDWR) != 0 {
		s.content = s.content[:0]
	}
	return &sinkFile{sink: s, stat: st}, 0
}

// Write implements io.Writer, so that a sink can be a standard output.
func (s *sink) Write(b []byte) (int, error) {
	if len(b) > s.max-len(s.content) {
		s.full = true
		return 0, esys.EIO
	}
	s.content = append(s.content, b...)
	return len(b), nil
}

// sinkFile is the sink's file or directory, open.
type sinkFile struct {
	esys.UnimplementedFile
	sink *sink
	stat sys.Stat_t
}

func (f *sinkFile) Stat() (sys.Stat_t, esys.Errno) { return f.stat, 0 }
func (f *sinkFile) Dev() (uint64, esys.Errno)      { return f.stat.Dev, 0 }
func (f *sinkFile) Ino() (sys.Inode, esys.Errno)   { return f.stat.Ino, 0 }
func (f *sinkFile) IsDir() (bool, esys.Errno)      { return f.stat.Mode.IsDir(), 0 }
func (f *sinkFile) Close() esys.Errno              { return 0 }

func (f *sinkFile) Write(b []byte) (int, esys.Errno) {
	if f.stat.Mode.IsDir() {
		return 0, esys.EISDIR
	}
	if _, err := f.sink.Write(b); err != nil {
		return 0, esys.EIO
	}
	return len(b), 0
}
