package quickjs

import (
	"encoding/json"
	"io/fs"
	"path"
	"strings"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// errnoName returns node's code for an error of the file system.
func errnoName(err error) string {
	switch err {
	case esys.EACCES:
		return "EACCES"
	case esys.EBADF:
		return "EBADF"
	case esys.EEXIST:
		return "EEXIST"
	case esys.EINVAL:
		return "EINVAL"
	case esys.EISDIR:
		return "EISDIR"
	case esys.ELOOP:
		return "ELOOP"
	case esys.ENAMETOOLONG:
		return "ENAMETOOLONG"
	case esys.ENOENT:
		return "ENOENT"
	case esys.ENOTDIR:
		return "ENOTDIR"
	case esys.ENOTEMPTY:
		return "ENOTEMPTY"
	case esys.ENOTSUP, esys.ENOSYS:
		return "ENOTSUP"
	case esys.EPERM:
		return "EPERM"
	case esys.EROFS:
		return "EROFS"
	case rootfs.ENOSPC:
		return "ENOSPC"
	case rootfs.EMFILE:
		return "EMFILE"
	}
	return "EIO"
}

// done returns undefined or throws the error.
func (v *vm) done(e esys.Errno) uint64 {
	if e != 0 {
		return v.throw(errnoName(e))
	}
	return v.undefined()
}

// at runs an operation on the mount that holds a path. Outside of all mounts
// nothing exists.
func (v *vm) at(p string, op func(fs *rootfs.FS, rel string) esys.Errno) esys.Errno {
	v.charge(guest.PathUnits(p))
	fs, rel, ok := v.run.Lookup(p)
	if !ok {
		return esys.ENOENT
	}
	return op(fs, rel)
}

// create is at for operations that make something new. Outside of all mounts
// nothing can be made.
func (v *vm) create(p string, op func(fs *rootfs.FS, rel string) esys.Errno) esys.Errno {
	if _, _, ok := v.run.Lookup(p); !ok {
		return esys.EROFS
	}
	return v.at(p, op)
}

// above lists the names that the mounts make appear in a directory above them;
// nil if dir is no such directory.
func (v *vm) above(dir string) []string {
	dir = strings.TrimSuffix(path.Clean("/"+dir), "/") + "/"
	var names []string
	for _, m := range v.run.Mounts {
		if rest, ok := strings.CutPrefix(m.Path, dir); ok {
			name, _, _ := strings.Cut(rest, "/")
			names = append(names, name)
		}
	}
	return names
}

// Bits of opOpen's flags, as lib/fs.js makes them.
const (
	openRead = 1 << iota
	openWrite
	openCreate
	openTruncate
	openAppend
	openExclusive
)

func (v *vm) open(p string, flags int, perm fs.FileMode) (esys.File, esys.Errno) {
	var o esys.Oflag
	switch {
	case flags&openRead != 0 && flags&openWrite != 0:
		o = esys.O_RDWR
	case flags&openWrite != 0:
		o = esys.O_WRONLY
	default:
		o = esys.O_RDONLY
	}
	for bit, flag := range map[int]esys.Oflag{
		openCreate: esys.O_CREAT, openTruncate: esys.O_TRUNC, openAppend: esys.O_APPEND, openExclusive: esys.O_EXCL,
	} {
		if flags&bit != 0 {
			o |= flag
		}
	}
	if path.Clean(p) == guest.ControlPath {
		v.charge(guest.PathUnits(p))
		return v.run.OpenControl(o)
	}
	var f esys.File
	at := v.at
	if flags&openCreate != 0 {
		at = v.create
	}
	e := at(p, func(fs *rootfs.FS, rel string) (e esys.Errno) {
		f, e = fs.OpenFile(rel, o, perm)
		return e
	})
	return f, e
}

// opOpen(path, flags, mode) returns a descriptor.
func opOpen(v *vm, a args) uint64 {
	f, e := v.open(a.text(0), int(a.integer(1)), fs.FileMode(a.integer(2)))
	if e != 0 {
		return v.throw(errnoName(e))
	}
	fd := 3
	for v.files[fd] != nil {
		fd++
	}
	v.files[fd] = f
	return v.newNumber(float64(fd))
}

// close ends the instance, and closes what the program left open.
func (v *vm) close() {
	for _, f := range v.files {
		f.Close()
	}
	v.files = nil
	_ = v.mod.Close(v.ctx)
}

// opClose(fd)
func opClose(v *vm, a args) uint64 {
	fd := int(a.integer(0))
	f := v.files[fd]
	if f == nil {
		return v.throw("EBADF")
	}
	delete(v.files, fd)
	return v.done(f.Close())
}

// opRead(fd, length, position) returns bytes, none at the end of the file; a
// negative position is the descriptor's own.
func opRead(v *vm, a args) uint64 {
	f := v.files[int(a.integer(0))]
	if f == nil {
		return v.throw("EBADF")
	}
	pos := a.integer(2)
	return v.fill(a.integer(1), func(b []byte) (int, error) {
		if pos >= 0 {
			return result(f.Pread(b, pos))
		}
		return result(f.Read(b))
	})
}

// result turns the result of a file's method into Go's.
func result(n int, e esys.Errno) (int, error) {
	if e != 0 {
		return n, e
	}
	return n, nil
}

// opWriteAt(fd, data, position) returns the number of bytes written.
func opWriteAt(v *vm, a args) uint64 {
	f := v.files[int(a.integer(0))]
	if f == nil {
		return v.throw("EBADF")
	}
	v.charge(guest.TransferUnits)
	data, release := a.span(1)
	defer release()
	pos, total := a.integer(2), 0
	for b := v.bytes(data); len(b) > 0; {
		var n int
		var e esys.Errno
		if pos >= 0 {
			n, e = f.Pwrite(b, pos+int64(total))
		} else {
			n, e = f.Write(b)
		}
		if e != 0 {
			return v.throw(errnoName(e))
		}
		total += n
		b = b[n:]
	}
	return v.newNumber(float64(total))
}

// opTruncate(fd, length)
func opTruncate(v *vm, a args) uint64 {
	f := v.files[int(a.integer(0))]
	if f == nil {
		return v.throw("EBADF")
	}
	return v.done(f.Truncate(a.integer(1)))
}

// opReadFile(path) returns the bytes of a file.
func opReadFile(v *vm, a args) uint64 {
	f, e := v.open(a.text(0), openRead, 0)
	if e != 0 {
		return v.throw(errnoName(e))
	}
	defer f.Close()
	if dir, _ := f.IsDir(); dir {
		return v.throw("EISDIR")
	}
	st, e := f.Stat()
	if e != 0 {
		return v.throw(errnoName(e))
	}
	return v.fill(st.Size, func(b []byte) (total int, err error) {
		for total < len(b) {
			n, e := f.Read(b[total:])
			if e != 0 || n == 0 {
				return result(total, e)
			}
			total += n
		}
		return total, nil
	})
}

// stat is the state of a file as lib/fs.js reads it.
type stat struct {
	Type  string `json:"type"` // file, directory, symlink or other
	Mode  uint32 `json:"mode"`
	Size  int64  `json:"size"`
	Ino   uint64 `json:"ino"`
	Dev   uint64 `json:"dev"`
	Nlink uint64 `json:"nlink"`
	Atime int64  `json:"atime"` // nanoseconds
	Mtime int64  `json:"mtime"`
	Ctime int64  `json:"ctime"`
}

// fileType names the type bits of a mode.
func fileType(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symlink"
	}
	return "other"
}

func (v *vm) newStat(st sys.Stat_t, e esys.Errno) uint64 {
	if e != 0 {
		return v.throw(errnoName(e))
	}
	return v.newJSON(stat{
		fileType(st.Mode), uint32(st.Mode.Perm()), st.Size, st.Ino, st.Dev, st.Nlink, st.Atim, st.Mtim, st.Ctim,
	})
}

func (v *vm) newJSON(x any) uint64 {
	raw, err := json.Marshal(x)
	if err != nil {
		return v.throw("EIO")
	}
	return v.newString(string(raw))
}

// opFstat(fd) returns a stat as JSON.
func opFstat(v *vm, a args) uint64 {
	f := v.files[int(a.integer(0))]
	if f == nil {
		return v.throw("EBADF")
	}
	st, e := f.Stat()
	return v.newStat(st, e)
}

// opStat(path, follow) returns a stat as JSON.
func opStat(v *vm, a args) uint64 {
	return v.newStat(v.stat(a.text(0), a.bool(1)))
}

// opType(path) returns the type of what a path leads to, as in a stat: nothing
// that differs between two runs with the same files.
func opType(v *vm, a args) uint64 {
	st, e := v.stat(a.text(0), true)
	if e != 0 {
		return v.throw(errnoName(e))
	}
	return v.newString(fileType(st.Mode))
}

func (v *vm) stat(p string, follow bool) (st sys.Stat_t, e esys.Errno) {
	if v.above(p) != nil {
		return sys.Stat_t{Mode: fs.ModeDir | 0o555, Nlink: 1}, 0
	}
	if path.Clean(p) == guest.ControlPath {
		return v.run.StatControl()
	}
	e = v.at(p, func(fs *rootfs.FS, rel string) (e esys.Errno) {
		if follow {
			st, e = fs.Stat(rel)
		} else {
			st, e = fs.Lstat(rel)
		}
		return e
	})
	return st, e
}

// entryUnits is the price of each entry of a directory that is listed.
const entryUnits = 3_000

// opReaddir(path) returns [name, type] pairs as JSON.
func opReaddir(v *vm, a args) uint64 {
	p := a.text(0)
	out := [][2]string{}
	if names := v.above(p); names != nil {
		for _, n := range names {
			out = append(out, [2]string{n, "directory"})
		}
		return v.newJSON(out)
	}
	f, e := v.open(p, openRead, 0)
	if e != 0 {
		return v.throw(errnoName(e))
	}
	defer f.Close()
	if dir, _ := f.IsDir(); !dir {
		return v.throw("ENOTDIR")
	}
	for {
		const batch = 1024
		entries, e := f.Readdir(batch)
		if e != 0 {
			return v.throw(errnoName(e))
		}
		v.charge(entryUnits * int64(len(entries)))
		for _, d := range entries {
			out = append(out, [2]string{d.Name, fileType(d.Type)})
		}
		if len(entries) < batch {
			return v.newJSON(out)
		}
	}
}
