package rootfs

import (
	"errors"
	"io"
	"math"
	"os"
	"sync"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// file is one open file or directory. It keeps its own position and appends by
// itself, so that the size is known before each write. It is used by one
// goroutine at a time, as wazero does.
type file struct {
	fs    *FS
	f     *os.File
	id    fileID
	node  *inode // nil for directories
	dir   bool
	read  bool
	write bool

	appends bool
	pos     int64
	closed  sync.Once
}

var _ esys.File = (*file)(nil)

// offset is int64. The name keeps vet from taking Seek, whose results wazero's
// interface prescribes, for a failed io.Seeker.
type offset = int64

func (h *file) Dev() (uint64, esys.Errno)    { st, e := h.Stat(); return st.Dev, e }
func (h *file) Ino() (sys.Inode, esys.Errno) { st, e := h.Stat(); return st.Ino, e }
func (h *file) IsDir() (bool, esys.Errno)    { return h.dir, 0 }
func (h *file) IsAppend() bool               { return h.appends }

func (h *file) SetAppend(on bool) esys.Errno {
	h.appends = on
	return 0
}

func (h *file) Stat() (sys.Stat_t, esys.Errno) {
	info, err := h.f.Stat()
	if err != nil {
		return sys.Stat_t{}, toErrno(err)
	}
	return h.fs.shown(info), 0
}

func (h *file) Read(b []byte) (int, esys.Errno) {
	n, e := h.Pread(b, h.pos)
	h.pos += int64(n)
	return n, e
}

func (h *file) Pread(b []byte, off int64) (int, esys.Errno) {
	switch {
	case h.dir:
		return 0, esys.EISDIR
	case !h.read:
		return 0, esys.EBADF
	case off < 0:
		return 0, esys.EINVAL
	case h.fs.over():
		return 0, esys.EINTR
	}
	n, err := h.f.ReadAt(b, off)
	if n > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	return n, toErrno(err)
}

func (h *file) Seek(off offset, whence int) (int64, esys.Errno) {
	if h.dir {
		// Only rewinding a listing makes sense.
		if off != 0 || whence != io.SeekStart {
			return 0, esys.EISDIR
		}
		_, err := h.f.Seek(0, io.SeekStart)
		return 0, toErrno(err)
	}
	base := int64(0)
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		base = h.pos
	case io.SeekEnd:
		st, e := h.Stat()
		if e != 0 {
			return 0, e
		}
		base = st.Size
	default:
		return 0, esys.EINVAL
	}
	if off > 0 && base > math.MaxInt64-off || base+off < 0 {
		return 0, esys.EINVAL
	}
	h.pos = base + off
	return h.pos, 0
}

func (h *file) Readdir(n int) ([]esys.Dirent, esys.Errno) {
	if !h.dir {
		return nil, esys.ENOTDIR
	}
	entries, err := h.f.ReadDir(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	out := make([]esys.Dirent, 0, len(entries))
	for _, d := range entries {
		// Info of a directory that came from an os.Root is relative to its
		// handle and does not follow links.
		info, err := d.Info()
		if err != nil {
			continue // it vanished
		}
		out = append(out, esys.Dirent{Name: d.Name(), Type: d.Type(), Ino: h.fs.shown(info).Ino})
	}
	return out, toErrno(err)
}

func (h *file) Write(b []byte) (int, esys.Errno) {
	if e := h.writable(); e != 0 {
		return 0, e
	}
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	if h.appends {
		st, e := h.Stat()
		if e != 0 {
			return 0, e
		}
		h.pos = st.Size
	}
	n, e := h.writeAt(b, h.pos)
	h.pos += int64(n)
	return n, e
}

func (h *file) Pwrite(b []byte, off int64) (int, esys.Errno) {
	if e := h.writable(); e != 0 {
		return 0, e
	}
	if off < 0 {
		return 0, esys.EINVAL
	}
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	return h.writeAt(b, off)
}

func (h *file) writable() esys.Errno {
	switch {
	case h.dir:
		return esys.EISDIR
	case !h.write:
		return esys.EBADF
	case h.fs.over():
		return esys.EINTR
	}
	return 0
}

// writeAt charges the growth, writes, and gives back what was not written. The
// caller holds node.mu.
func (h *file) writeAt(b []byte, off int64) (int, esys.Errno) {
	if len(b) == 0 {
		return 0, 0
	}
	if off > math.MaxInt64-int64(len(b)) {
		return 0, h.fs.fail(ENOSPC)
	}
	growth := max(0, off+int64(len(b))-h.node.size)
	if err := h.fs.quota.Charge(growth, 0); err != nil {
		return 0, h.fs.fail(ENOSPC)
	}
	n, err := h.f.WriteAt(b, off)
	h.wrote()
	grown := int64(0)
	if n > 0 {
		grown = max(0, off+int64(n)-h.node.size)
	}
	h.node.size += grown
	h.fs.quota.Release(growth-grown, 0)
	if err != nil {
		return n, h.fs.fail(toErrno(err))
	}
	return n, 0
}

func (h *file) Truncate(size int64) esys.Errno {
	if e := h.writable(); e != 0 {
		return e
	}
	if size < 0 {
		return esys.EINVAL
	}
	h.node.mu.Lock()
	defer h.node.mu.Unlock()
	growth := max(0, size-h.node.size)
	if err := h.fs.quota.Charge(growth, 0); err != nil {
		return h.fs.fail(ENOSPC)
	}
	defer h.wrote()
	if err := h.f.Truncate(size); err != nil {
		h.fs.quota.Release(growth, 0)
		return h.fs.fail(toErrno(err))
	}
	if size < h.node.size {
		h.fs.quota.Release(h.node.size-size, 0)
	}
	h.node.size = size
	return 0
}

// wrote notes that the content changed.
func (h *file) wrote() { h.node.wrote.Store(h.fs.quota.changes.Add(1)) }

// Sync does nothing: a guest must not make the host wait for its disk.
func (h *file) Sync() esys.Errno { return 0 }

// Datasync does nothing, like Sync.
func (h *file) Datasync() esys.Errno { return 0 }

func (h *file) Utimens(atim, mtim int64) esys.Errno {
	if h.fs.opt.ReadOnly {
		return esys.EROFS
	}
	defer h.fs.quota.changed()
	return toErrno(futimens(h.f, atim, mtim))
}

func (h *file) Close() esys.Errno {
	var e esys.Errno
	h.closed.Do(func() {
		q := h.fs.quota
		q.names.Lock()
		defer q.names.Unlock()
		if h.node != nil {
			st, statErr := h.Stat()
			q.drop(h.id, h.node, statErr == 0 && st.Nlink == 0)
		}
		h.fs.files.Add(-1)
		e = toErrno(h.f.Close())
	})
	return e
}
