package rootfs

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"sync/atomic"
	"syscall"
	"time"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/sys"
)

// Options vary an FS.
type Options struct {
	// ReadOnly refuses every change with EROFS.
	ReadOnly bool
	// OnErrno is called with the WASI error number when an operation fails
	// for a reason that wazero cannot express (see ENOSPC); nil is allowed.
	OnErrno func(wasi uint16)
	// Done is closed when the run is over; nil means never. From then on
	// opening, reading and writing fail with EINTR: one call of the guest may
	// stand for millions of operations, and nothing else would stop it between
	// them.
	Done <-chan struct{}
}

// FS is a directory as one guest sees it. Its methods follow wazero's
// experimental/sys.FS; paths are relative to the root, "." or "/" is the root
// itself. It is safe for concurrent use, although a guest has one thread.
type FS struct {
	esys.UnimplementedFS
	root  *os.Root
	quota *Quota
	opt   Options
	files atomic.Int64 // open now
	// veil hides the host's device and inode numbers from the guest and keeps
	// them distinct, and of one length: a program uses the same fuel each time.
	veil uint32
}

var _ esys.FS = (*FS)(nil)

// New returns a file system over root that charges q. A nil q stands for a new
// Quota with default limits. The caller keeps root and closes it after the last
// file of the FS is closed.
func New(root *os.Root, q *Quota, opt Options) *FS {
	if q == nil {
		q = NewQuota(Limits{})
	}
	return &FS{root: root, quota: q, opt: opt, veil: rand.Uint32()}
}

// over reports whether the run is over.
func (f *FS) over() bool {
	select {
	case <-f.opt.Done: // never for a nil channel
		return true
	default:
		return false
	}
}

// shown is what the guest is told of a file.
func (f *FS) shown(info fs.FileInfo) sys.Stat_t {
	st := sys.NewStat_t(info)
	st.Dev = 1<<20 | uint64(f.veil>>16)
	st.Ino ^= 1<<52 | uint64(f.veil)
	return st
}

// fail reports errors that wazero cannot express and returns e.
func (f *FS) fail(e esys.Errno) esys.Errno {
	if e > errnoBase && f.opt.OnErrno != nil {
		f.opt.OnErrno(uint16(e) - errnoBase)
	}
	return e
}

// OpenFile implements experimental/sys.FS. Only regular files and directories
// can be opened; anything else is EACCES.
func (f *FS) OpenFile(p string, flag esys.Oflag, perm fs.FileMode) (esys.File, esys.Errno) {
	h, e := f.openFile(p, flag, perm)
	if e != 0 {
		return nil, f.fail(e)
	}
	return h, 0
}

func (f *FS) openFile(p string, flag esys.Oflag, perm fs.FileMode) (*file, esys.Errno) {
	p, e := f.clean(p)
	if e != 0 {
		return nil, e
	}
	// A FIFO must not block us and a terminal must not become ours.
	host := syscall.O_NONBLOCK | syscall.O_NOCTTY
	access := flag & (esys.O_RDONLY | esys.O_RDWR | esys.O_WRONLY)
	write := access == esys.O_RDWR || access == esys.O_WRONLY
	read := access != esys.O_WRONLY
	switch access {
	case esys.O_RDWR:
		host |= os.O_RDWR
	case esys.O_WRONLY:
		host |= os.O_WRONLY
	}
	if flag&esys.O_DIRECTORY != 0 {
		host |= syscall.O_DIRECTORY
	}
	if flag&esys.O_NOFOLLOW != 0 {
		host |= syscall.O_NOFOLLOW
	}
	truncate := flag&esys.O_TRUNC != 0
	create := flag&esys.O_CREAT != 0
	if f.over() {
		return nil, esys.EINTR
	}
	if f.opt.ReadOnly && (write || truncate) {
		return nil, esys.EROFS
	}
	if truncate && !write {
		return nil, esys.EINVAL
	}
	if f.files.Add(1) > int64(f.quota.limits.OpenFiles) {
		f.files.Add(-1)
		return nil, EMFILE
	}
	h, e := f.openCounted(p, host, create, flag&esys.O_EXCL != 0, perm)
	if e != 0 {
		f.files.Add(-1)
		return nil, e
	}
	h.read, h.write, h.appends = read, write, flag&esys.O_APPEND != 0
	if h.dir && write {
		h.Close()
		return nil, esys.EISDIR
	}
	if truncate {
		if e := h.Truncate(0); e != 0 {
			h.Close()
			return nil, e
		}
	}
	return h, 0
}

// openCounted opens or creates p and joins the file's account. O_APPEND and
// O_TRUNC never reach the host: both are done where the size is known.
func (f *FS) openCounted(p string, host int, create, exclusive bool, perm fs.FileMode) (*file, esys.Errno) {
	f.quota.names.Lock()
	defer f.quota.names.Unlock()
	var h *os.File
	var err error
	if create && exclusive {
		_, err = f.root.Lstat(p)
		if err == nil {
			return nil, esys.EEXIST
		}
	} else {
		h, err = f.root.OpenFile(p, host, 0)
	}
	if create && errors.Is(err, fs.ErrNotExist) {
		if f.opt.ReadOnly {
			return nil, esys.EROFS
		}
		host |= os.O_CREATE
		if exclusive {
			host |= os.O_EXCL
		}
		if err = f.quota.Charge(0, 1); err == nil {
			// The owner always keeps access, else the host could not collect
			// or remove what an unprivileged guest left.
			h, err = f.root.OpenFile(p, host, perm.Perm()|0o600)
			f.quota.changed()
			if err != nil {
				f.quota.Release(0, 1)
			}
		}
	}
	if err != nil {
		return nil, toErrno(err)
	}
	info, err := h.Stat()
	if err != nil {
		_ = h.Close()
		return nil, toErrno(err)
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return &file{fs: f, f: h, dir: true}, 0
	case mode.IsRegular():
		st := sys.NewStat_t(info)
		id := fileID{st.Dev, st.Ino}
		return &file{fs: f, f: h, id: id, node: f.quota.acquire(id, st.Size)}, 0
	default:
		_ = h.Close()
		return nil, esys.EACCES
	}
}

// Lstat implements experimental/sys.FS.
func (f *FS) Lstat(p string) (sys.Stat_t, esys.Errno) { return f.stat(p, f.root.Lstat) }

// Stat implements experimental/sys.FS.
func (f *FS) Stat(p string) (sys.Stat_t, esys.Errno) { return f.stat(p, f.root.Stat) }

func (f *FS) stat(p string, op func(string) (fs.FileInfo, error)) (sys.Stat_t, esys.Errno) {
	p, e := f.clean(p)
	if e != 0 {
		return sys.Stat_t{}, e
	}
	info, err := op(p)
	if err != nil {
		return sys.Stat_t{}, f.fail(toErrno(err))
	}
	return f.shown(info), 0
}

// Readlink implements experimental/sys.FS.
func (f *FS) Readlink(p string) (string, esys.Errno) {
	p, e := f.clean(p)
	if e != 0 {
		return "", e
	}
	s, err := f.root.Readlink(p)
	if err != nil {
		return "", f.fail(toErrno(err))
	}
	return s, 0
}

// Chmod implements experimental/sys.FS. Only the nine permission bits are set,
// and the owner's read and write (for directories also search) stay on, else
// the host could not collect or remove the file.
func (f *FS) Chmod(p string, perm fs.FileMode) esys.Errno {
	return f.change(p, func(p string) error {
		info, err := f.root.Stat(p)
		if err != nil {
			return err
		}
		perm = perm.Perm() | 0o600
		if info.IsDir() {
			perm |= 0o700
		}
		return f.root.Chmod(p, perm)
	})
}

// Utimens implements experimental/sys.FS.
func (f *FS) Utimens(p string, atim, mtim int64) esys.Errno {
	return f.change(p, func(p string) error { return f.root.Chtimes(p, stamp(atim), stamp(mtim)) })
}

// stamp converts a time of the ABI; the zero Time tells os to leave it.
func stamp(ns int64) time.Time {
	if ns == esys.UTIME_OMIT {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// change runs an operation that alters p with the names locked.
func (f *FS) change(p string, op func(p string) error) esys.Errno {
	p, e := f.clean(p)
	if e != 0 {
		return e
	}
	if f.opt.ReadOnly {
		return esys.EROFS
	}
	f.quota.names.Lock()
	defer f.quota.names.Unlock()
	defer f.quota.changed()
	return f.fail(toErrno(op(p)))
}

// within tells whether a relative link at the clean path p that points to
// target stays below the root as spelled.
func within(p, target string) bool {
	t := path.Join(path.Dir(p), target)
	return t != ".." && len(t) > 0 && (len(t) < 3 || t[:3] != "../") && !path.IsAbs(target)
}
