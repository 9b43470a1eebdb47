package worker

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/coreutils"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/wire"
)

// client asks for file operations. It is safe for concurrent use; requests take
// turns.
type client struct {
	conn *net.UnixConn
	mu   sync.Mutex
	buf  []byte
}

// ask sends a request and waits for the answer. The error is the operation's, a
// syscall.Errno, or the connection's: then the other side is gone and so is this
// process, soon.
func (c *client) ask(q wire.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = q.Append(c.buf[:0])
	if err := wire.WriteFrame(c.conn, c.buf); err != nil {
		return wire.Answer{}, err
	}
	b, err := wire.ReadFrame(c.conn, wire.MaxFrame)
	if err != nil {
		return wire.Answer{}, err
	}
	a, err := wire.ParseAnswer(b)
	if err == nil && a.Errno != 0 {
		err = syscall.Errno(a.Errno)
	}
	return a, err
}

// do is ask for what has no answer but success, or one entry.
func (c *client) do(op string, q wire.Request) (wire.Answer, error) {
	if len(q.Path) > maxPath || len(q.Target) > maxPath {
		return wire.Answer{}, &fs.PathError{Op: op, Path: q.Path[:64], Err: syscall.ENAMETOOLONG}
	}
	a, err := c.ask(q)
	if err != nil {
		return a, &fs.PathError{Op: op, Path: q.Path, Err: err}
	}
	return a, nil
}

const maxPath = 4096

// openFlags are the flags of open(2) and those of the wire.
var openFlags = map[int]uint32{
	syscall.O_CREAT: wire.FlagCreate, syscall.O_EXCL: wire.FlagExclusive, syscall.O_TRUNC: wire.FlagTruncate,
	syscall.O_APPEND: wire.FlagAppend, syscall.O_DIRECTORY: wire.FlagDirectory, syscall.O_NOFOLLOW: wire.FlagNoFollow,
}

// Open opens a file of the sandbox.
func (c *client) Open(name string, flag int, perm fs.FileMode) (coreutils.File, error) {
	q := wire.Request{Op: wire.OpOpen, Path: name, Perm: uint32(perm.Perm())}
	switch flag & syscall.O_ACCMODE {
	case syscall.O_RDONLY:
		q.Flags = wire.FlagRead
	case syscall.O_WRONLY:
		q.Flags = wire.FlagWrite
	default:
		q.Flags = wire.FlagRead | wire.FlagWrite
	}
	for o, f := range openFlags {
		if flag&o == o {
			q.Flags |= f
		}
	}
	a, err := c.do("open", q)
	if err != nil {
		return nil, err
	}
	return &file{c: c, handle: a.Handle, name: name}, nil
}

func (c *client) stat(op string, code wire.Op, name string) (fs.FileInfo, error) {
	a, err := c.do(op, wire.Request{Op: code, Path: name})
	if err != nil {
		return nil, err
	}
	if len(a.Entries) != 1 {
		return nil, &fs.PathError{Op: op, Path: name, Err: syscall.EIO}
	}
	return newInfo(a.Entries[0]), nil
}

func (c *client) Stat(name string) (fs.FileInfo, error) { return c.stat("stat", wire.OpStat, name) }

func (c *client) Lstat(name string) (fs.FileInfo, error) { return c.stat("lstat", wire.OpLstat, name) }

// ReadDir returns the entries of a directory.
func (c *client) ReadDir(name string) ([]fs.FileInfo, error) {
	f, err := c.Open(name, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var list []fs.FileInfo
	for {
		a, err := c.do("readdir", wire.Request{Op: wire.OpReadDir, Handle: f.(*file).handle, Path: name})
		if err != nil || len(a.Entries) == 0 {
			return list, err
		}
		for _, e := range a.Entries {
			list = append(list, newInfo(e))
		}
	}
}

func (c *client) Readlink(name string) (string, error) {
	a, err := c.do("readlink", wire.Request{Op: wire.OpReadlink, Path: name})
	return string(a.Data), err
}

func (c *client) Mkdir(name string, perm fs.FileMode) error {
	_, err := c.do("mkdir", wire.Request{Op: wire.OpMkdir, Path: name, Perm: uint32(perm.Perm())})
	return err
}

func (c *client) Unlink(name string) error {
	_, err := c.do("remove", wire.Request{Op: wire.OpUnlink, Path: name})
	return err
}

func (c *client) Rmdir(name string) error {
	_, err := c.do("rmdir", wire.Request{Op: wire.OpRmdir, Path: name})
	return err
}

func (c *client) Rename(from, to string) error {
	_, err := c.do("rename", wire.Request{Op: wire.OpRename, Path: from, Target: to})
	return err
}

func (c *client) Link(from, to string) error {
	_, err := c.do("link", wire.Request{Op: wire.OpLink, Path: from, Target: to})
	return err
}

func (c *client) Symlink(target, name string) error {
	_, err := c.do("symlink", wire.Request{Op: wire.OpSymlink, Path: name, Target: target})
	return err
}

func (c *client) Chmod(name string, perm fs.FileMode) error {
	_, err := c.do("chmod", wire.Request{Op: wire.OpChmod, Path: name, Perm: uint32(perm.Perm())})
	return err
}

func (c *client) Chtimes(name string, accessed, modified time.Time) error {
	_, err := c.do("chtimes", wire.Request{Op: wire.OpChtimes, Path: name, Size: accessed.UnixNano(), Time: modified.UnixNano()})
	return err
}

func (c *client) Usage() (used, limit int64, err error) {
	a, err := c.ask(wire.Request{Op: wire.OpUsage})
	return a.Size, a.Time, err
}

// file is an open file of the sandbox.
type file struct {
	c      *client
	handle uint32
	name   string
	once   sync.Once
}

func (f *file) err(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

func (f *file) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	a, err := f.c.ask(wire.Request{Op: wire.OpRead, Handle: f.handle, Size: int64(min(len(b), wire.MaxData))})
	if err != nil {
		return 0, f.err("read", err)
	}
	if len(a.Data) == 0 {
		return 0, io.EOF
	}
	return copy(b, a.Data), nil
}

func (f *file) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), wire.MaxData)]
		a, err := f.c.ask(wire.Request{Op: wire.OpWrite, Handle: f.handle, Data: part})
		done := int(min(max(a.Size, 0), int64(len(part))))
		n += done
		b = b[done:]
		if err == nil && done == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return n, f.err("write", err)
		}
	}
	return n, nil
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	a, err := f.c.ask(wire.Request{Op: wire.OpSeek, Handle: f.handle, Size: offset, Flags: uint32(whence)})
	return a.Size, f.err("seek", err)
}

func (f *file) Truncate(size int64) error {
	_, err := f.c.ask(wire.Request{Op: wire.OpTruncate, Handle: f.handle, Size: size})
	return f.err("truncate", err)
}

func (f *file) Stat() (fs.FileInfo, error) {
	a, err := f.c.ask(wire.Request{Op: wire.OpStatFile, Handle: f.handle})
	if err == nil && len(a.Entries) != 1 {
		err = syscall.EIO
	}
	if err != nil {
		return nil, f.err("stat", err)
	}
	a.Entries[0].Name = path.Base(f.name)
	return newInfo(a.Entries[0]), nil
}

func (f *file) Close() (err error) {
	err = fs.ErrClosed
	f.once.Do(func() { _, err = f.c.ask(wire.Request{Op: wire.OpClose, Handle: f.handle}) })
	if errors.Is(err, fs.ErrClosed) {
		return err
	}
	return f.err("close", err)
}

// info is what there is to know of a file.
type info struct {
	entry wire.Entry
	sys   syscall.Stat_t
}

// newInfo fills in what code that knows Linux looks for in Sys.
func newInfo(e wire.Entry) *info {
	i := &info{entry: e}
	i.sys.Ino, i.sys.Size = e.Inode, e.Size
	i.sys.Uid, i.sys.Gid = userID, userID
	i.sys.Atim = syscall.NsecToTimespec(e.Accessed)
	i.sys.Mtim = syscall.NsecToTimespec(e.Modified)
	i.sys.Ctim = syscall.NsecToTimespec(e.Changed)
	setLinks(&i.sys, e.Links)
	return i
}

func (i *info) Name() string       { return i.entry.Name }
func (i *info) Size() int64        { return i.entry.Size }
func (i *info) Mode() fs.FileMode  { return fs.FileMode(i.entry.Mode) }
func (i *info) ModTime() time.Time { return time.Unix(0, i.entry.Modified) }
func (i *info) IsDir() bool        { return i.Mode().IsDir() }
func (i *info) Sys() any           { return &i.sys }

// Details has what commands ask for, on any system.
func (i *info) Details() coreutils.Details {
	return coreutils.Details{
		Links: uint64(i.entry.Links), Inode: i.entry.Inode,
		Accessed: time.Unix(0, i.entry.Accessed), Changed: time.Unix(0, i.entry.Changed),
	}
}

// userID is the user and group that scripts seem to run as.
const userID = 1000
