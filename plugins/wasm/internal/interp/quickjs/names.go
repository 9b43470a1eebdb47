package quickjs

import (
	"io/fs"

	esys "github.com/tetratelabs/wazero/experimental/sys"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// opMkdir(path, mode)
func opMkdir(v *vm, a args) uint64 {
	p := a.text(0)
	if v.above(p) != nil {
		return v.throw("EEXIST")
	}
	return v.done(v.create(p, func(f *rootfs.FS, rel string) esys.Errno { return f.Mkdir(rel, fs.FileMode(a.integer(1))) }))
}

// opRmdir(path)
func opRmdir(v *vm, a args) uint64 { return v.done(v.at(a.text(0), (*rootfs.FS).Rmdir)) }

// opUnlink(path)
func opUnlink(v *vm, a args) uint64 { return v.done(v.at(a.text(0), (*rootfs.FS).Unlink)) }

// both runs an operation on two paths of one mount.
func (v *vm) both(a args, op func(fs *rootfs.FS, from, to string) esys.Errno) uint64 {
	pathFrom, pathTo := a.text(0), a.text(1)
	v.charge(guest.PathUnits(pathFrom) + guest.PathUnits(pathTo))
	from, relFrom, ok := v.run.Lookup(pathFrom)
	to, relTo, ok2 := v.run.Lookup(pathTo)
	switch {
	case !ok:
		return v.throw("ENOENT")
	case !ok2:
		return v.throw("EROFS")
	case from != to:
		return v.throw("EXDEV")
	}
	return v.done(op(from, relFrom, relTo))
}

// opRename(from, to)
func opRename(v *vm, a args) uint64 { return v.both(a, (*rootfs.FS).Rename) }

// opLink(from, to)
func opLink(v *vm, a args) uint64 { return v.both(a, (*rootfs.FS).Link) }

// opSymlink(target, path)
func opSymlink(v *vm, a args) uint64 {
	return v.done(v.create(a.text(1), func(fs *rootfs.FS, rel string) esys.Errno { return fs.Symlink(a.text(0), rel) }))
}

// opReadlink(path)
func opReadlink(v *vm, a args) uint64 {
	var s string
	e := v.at(a.text(0), func(fs *rootfs.FS, rel string) (e esys.Errno) {
		s, e = fs.Readlink(rel)
		return e
	})
	if e != 0 {
		return v.throw(errnoName(e))
	}
	return v.newString(s)
}

// opChmod(path, mode)
func opChmod(v *vm, a args) uint64 {
	return v.done(v.at(a.text(0), func(f *rootfs.FS, rel string) esys.Errno { return f.Chmod(rel, fs.FileMode(a.integer(1))) }))
}

// opUtimes(path, atime, mtime) sets times in milliseconds.
func opUtimes(v *vm, a args) uint64 {
	return v.done(v.at(a.text(0), func(f *rootfs.FS, rel string) esys.Errno {
		return f.Utimens(rel, a.nanoseconds(1), a.nanoseconds(2))
	}))
}

// opFutimes(fd, atime, mtime) sets times in milliseconds.
func opFutimes(v *vm, a args) uint64 {
	f := v.files[int(a.integer(0))]
	if f == nil {
		return v.throw("EBADF")
	}
	return v.done(f.Utimens(a.nanoseconds(1), a.nanoseconds(2)))
}

// nanoseconds converts from milliseconds, within what an int64 holds.
func (a args) nanoseconds(i int) int64 {
	const most = 9e12
	return int64(min(max(a.number(i), -most), most) * 1e6)
}
