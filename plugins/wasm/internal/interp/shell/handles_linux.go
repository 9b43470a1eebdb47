package shell

import (
	"io/fs"
	"path"
	"syscall"
	"time"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// files carries out the file operations of one worker. One goroutine uses it.
type files struct {
	run  *guest.Run
	open map[uint32]esys.File
	dirs map[uint32]string // guest paths of those that are directories
	next uint32
}

func newFiles(r *guest.Run) *files {
	return &files{run: r, open: map[uint32]esys.File{}, dirs: map[uint32]string{}}
}

// close closes what the worker left open.
func (f *files) close() {
	for _, h := range f.open {
		_ = h.Close()
	}
	clear(f.open)
}

// do carries out one request.
func (f *files) do(q wire.Request) wire.Answer {
	a, err := f.dispatch(q)
	if err != 0 {
		return wire.Answer{Errno: errno(err), Size: a.Size}
	}
	return a
}

func (f *files) dispatch(q wire.Request) (wire.Answer, esys.Errno) {
	switch q.Op {
	case wire.OpRead, wire.OpWrite, wire.OpSeek, wire.OpTruncate, wire.OpStatFile, wire.OpReadDir, wire.OpClose:
		h, ok := f.open[q.Handle]
		if !ok {
			return wire.Answer{}, esys.EBADF
		}
		return f.handle(h, q)
	case wire.OpUsage:
		used, _ := f.run.Program.Data.Quota.Used()
		return wire.Answer{Size: used, Time: f.run.Program.Data.Quota.Limits().Bytes}, 0
	}
	where, rel, ok := f.run.Lookup(q.Path)
	if !ok {
		if creates(q) {
			return wire.Answer{}, esys.EROFS
		}
		return wire.Answer{}, esys.ENOENT
	}
	switch q.Op {
	case wire.OpRename, wire.OpLink:
		there, to, ok := f.run.Lookup(q.Target)
		if !ok {
			return wire.Answer{}, esys.EROFS
		}
		if there != where {
			return wire.Answer{}, otherDevice
		}
		if q.Op == wire.OpRename {
			return wire.Answer{}, where.Rename(rel, to)
		}
		return wire.Answer{}, where.Link(rel, to)
	case wire.OpOpen:
		return f.openFile(where, rel, q)
	}
	return names(where, rel, q)
}

// names carries out what needs a path only.
func names(where *rootfs.FS, rel string, q wire.Request) (wire.Answer, esys.Errno) {
	switch q.Op {
	case wire.OpStat:
		st, e := where.Stat(rel)
		return one(path.Base(q.Path), st), e
	case wire.OpLstat:
		st, e := where.Lstat(rel)
		return one(path.Base(q.Path), st), e
	case wire.OpReadlink:
		s, e := where.Readlink(rel)
		return wire.Answer{Data: []byte(s)}, e
	case wire.OpMkdir:
		return wire.Answer{}, where.Mkdir(rel, fs.FileMode(q.Perm).Perm())
	case wire.OpUnlink:
		return wire.Answer{}, where.Unlink(rel)
	case wire.OpRmdir:
		return wire.Answer{}, where.Rmdir(rel)
	case wire.OpSymlink:
		return wire.Answer{}, where.Symlink(q.Target, rel)
	case wire.OpChmod:
		return wire.Answer{}, where.Chmod(rel, fs.FileMode(q.Perm).Perm())
	case wire.OpChtimes:
		return wire.Answer{}, where.Utimens(rel, q.Size, q.Time)
	}
	return wire.Answer{}, esys.ENOSYS
}

// creates tells whether the request would add a name or change a file.
func creates(q wire.Request) bool {
	switch q.Op {
	case wire.OpMkdir, wire.OpSymlink, wire.OpLink:
		return true
	case wire.OpOpen:
		return q.Flags&(wire.FlagCreate|wire.FlagWrite) != 0
	}
	return false
}

func (f *files) openFile(where *rootfs.FS, rel string, q wire.Request) (wire.Answer, esys.Errno) {
	var flag esys.Oflag
	switch {
	case q.Flags&wire.FlagWrite == 0:
		flag = esys.O_RDONLY
	case q.Flags&wire.FlagRead == 0:
		flag = esys.O_WRONLY
	default:
		flag = esys.O_RDWR
	}
	for bit, o := range map[uint32]esys.Oflag{
		wire.FlagCreate: esys.O_CREAT, wire.FlagExclusive: esys.O_EXCL, wire.FlagTruncate: esys.O_TRUNC,
		wire.FlagAppend: esys.O_APPEND, wire.FlagDirectory: esys.O_DIRECTORY, wire.FlagNoFollow: esys.O_NOFOLLOW,
	} {
		if q.Flags&bit != 0 {
			flag |= o
		}
	}
	h, e := where.OpenFile(rel, flag, fs.FileMode(q.Perm).Perm())
	if e != 0 {
		return wire.Answer{}, e
	}
	f.next++
	f.open[f.next] = h
	if dir, _ := h.IsDir(); dir {
		f.dirs[f.next] = path.Clean(q.Path)
	}
	return wire.Answer{Handle: f.next}, 0
}

// handle carries out what concerns an open file.
func (f *files) handle(h esys.File, q wire.Request) (wire.Answer, esys.Errno) {
	switch q.Op {
	case wire.OpRead:
		b := make([]byte, min(max(q.Size, 0), wire.MaxData))
		n, e := h.Read(b)
		return wire.Answer{Data: b[:n]}, e
	case wire.OpWrite:
		n, e := h.Write(q.Data)
		return wire.Answer{Size: int64(n)}, e
	case wire.OpSeek:
		if q.Flags > 2 {
			return wire.Answer{}, esys.EINVAL
		}
		n, e := h.Seek(q.Size, int(q.Flags))
		return wire.Answer{Size: n}, e
	case wire.OpTruncate:
		return wire.Answer{}, h.Truncate(q.Size)
	case wire.OpStatFile:
		st, e := h.Stat()
		return one("", st), e
	case wire.OpReadDir:
		return f.readDir(h, f.dirs[q.Handle])
	default: // OpClose
		delete(f.open, q.Handle)
		delete(f.dirs, q.Handle)
		return wire.Answer{}, h.Close()
	}
}

// readDir tells the next entries of a directory with what there is to know of
// each. Those that vanish meanwhile are left out.
func (f *files) readDir(h esys.File, dir string) (wire.Answer, esys.Errno) {
	for {
		list, e := h.Readdir(wire.MaxEntries)
		if e != 0 || len(list) == 0 {
			return wire.Answer{}, e
		}
		var a wire.Answer
		for _, d := range list {
			where, rel, ok := f.run.Lookup(dir + "/" + d.Name)
			if !ok {
				continue
			}
			if st, e := where.Lstat(rel); e == 0 {
				a.Entries = append(a.Entries, entry(d.Name, st))
			}
		}
		if len(a.Entries) > 0 {
			return a, 0
		}
	}
}

func one(name string, st sys.Stat_t) wire.Answer {
	return wire.Answer{Entries: []wire.Entry{entry(name, st)}}
}

func entry(name string, st sys.Stat_t) wire.Entry {
	return wire.Entry{
		Name: name, Mode: uint32(st.Mode), Links: uint32(st.Nlink), Size: st.Size, Inode: st.Ino,
		Accessed: st.Atim, Modified: st.Mtim, Changed: st.Ctim,
	}
}

// otherDevice stands for EXDEV, which wazero has no name for.
const otherDevice = esys.Errno(0xfffe)

// errnos are the numbers of Linux for wazero's.
var errnos = map[esys.Errno]syscall.Errno{
	esys.EACCES: syscall.EACCES, esys.EAGAIN: syscall.EAGAIN, esys.EBADF: syscall.EBADF, esys.EEXIST: syscall.EEXIST,
	esys.EFAULT: syscall.EFAULT, esys.EINTR: syscall.EINTR, esys.EINVAL: syscall.EINVAL, esys.EIO: syscall.EIO,
	esys.EISDIR: syscall.EISDIR, esys.ELOOP: syscall.ELOOP, esys.ENAMETOOLONG: syscall.ENAMETOOLONG,
	esys.ENOENT: syscall.ENOENT, esys.ENOSYS: syscall.ENOSYS, esys.ENOTDIR: syscall.ENOTDIR, esys.ERANGE: syscall.ERANGE,
	esys.ENOTEMPTY: syscall.ENOTEMPTY, esys.ENOTSUP: syscall.ENOTSUP, esys.EPERM: syscall.EPERM, esys.EROFS: syscall.EROFS,
	rootfs.ENOSPC: syscall.ENOSPC, rootfs.EMFILE: syscall.EMFILE, otherDevice: syscall.EXDEV,
}

func errno(e esys.Errno) uint32 {
	if n, ok := errnos[e]; ok {
		return uint32(n)
	}
	return uint32(syscall.EIO)
}

// cpuSeconds is the limit of a worker that may compute for as long as left. The
// kernel counts whole seconds, and the runtime's own threads.
func cpuSeconds(left time.Duration) uint64 {
	return uint64((left+left/4+time.Second-1)/time.Second) + 1
}
