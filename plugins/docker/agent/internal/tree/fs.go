//go:build linux

package tree

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/kernel"
	"github.com/caisson-run/caisson/sdk/backend/files"
)

// FS does what is asked as one user. It is safe for concurrent use.
type FS struct {
	// UID is the session's user and GID the group of all programs.
	UID, GID int
	// Programs reports whether a user id is one that programs have.
	Programs func(uid int) bool
	// Slots bounds how much is done at a time, by its capacity: each takes a thread, and
	// where programs have used up what the container may have, none can be made. nil does
	// not bound.
	Slots chan struct{}
}

// as calls fn as that user. ctx ends the waiting for a slot; fn sees to it itself.
func (f *FS) as(ctx context.Context, fn func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if f.Slots != nil {
		select {
		case f.Slots <- struct{}{}:
			defer func() { <-f.Slots }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return kernel.As(f.UID, f.GID, fn)
}

// Errors beside those of the kernel.
var (
	// ErrNotRegular says that a path is no regular file.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge says that content is longer than was allowed.
	ErrTooLarge = errors.New("longer than allowed")
	// ErrTooMany says that there are more files than are looked at.
	ErrTooMany = errors.New("too many files")
	// ErrDigest says that content is other than was expected.
	ErrDigest = errors.New("the content is not what was expected")
)

// Modes on disk give the group what the owner has, so that every program can use what
// another made. What is reported has the group's bits as those of others, so that a
// file that was written with 0644 or 0600 says so.

func diskMode(mode uint32) uint32 { return mode&0o707 | mode>>3&0o070 }

// Mode is what is reported of a mode on disk.
func (f *FS) mode(st *unix.Stat_t) uint32 {
	if m := st.Mode & 0o777; int(st.Gid) != f.GID {
		return m
	}
	return Mode(st.Mode)
}

// Mode is what is reported of the mode of a program's file.
func Mode(m uint32) uint32 { return m&0o707 | m&0o007<<3 }

func (f *FS) entry(path string, st *unix.Stat_t) files.Entry {
	e := files.Entry{Path: path, Type: files.EntryOther, Mode: f.mode(st), Modified: time.Unix(st.Mtim.Unix()).UTC()}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Type, e.Size = files.EntryFile, st.Size
	case unix.S_IFDIR:
		e.Type = files.EntryDir
	}
	return e
}

// How directories are held: for their names only.
const holdFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// hold opens the directory that path names, making what is missing when make is set. The
// caller is who the kernel checks, and closes the descriptor.
func hold(path string, make bool) (int, error) {
	fd, err := unix.Open("/", holdFlags, 0)
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if name == "" {
			break
		}
		next, err := unix.Openat(fd, name, holdFlags, 0)
		if make && errors.Is(err, unix.ENOENT) {
			if err = unix.Mkdirat(fd, name, 0o775); err == nil || errors.Is(err, unix.EEXIST) {
				next, err = unix.Openat(fd, name, holdFlags, 0)
			}
		}
		_ = unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// split separates the last name of a path; "/" has none.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i+1], path[i+1:]
}

// at calls fn with the directory that holds path, and its name in there. The root of
// everything is "." in itself.
func at(path string, make bool, fn func(dir int, name string) error) error {
	dir, name := split(path)
	fd, err := hold(dir, make)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if name == "" {
		name = "."
	}
	return fn(fd, name)
}

func lstat(dir int, name string) (st unix.Stat_t, err error) {
	err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// temporary marks names of files that are being written. Nobody is told of them.
const temporary = ".caisson~"

// temporaryName returns a name that is no other's.
func temporaryName() string {
	var random [12]byte
	_, _ = rand.Read(random[:]) // never fails
	return "." + hex.EncodeToString(random[:]) + temporary
}

// listed reports whether a name is shown: those that are not UTF-8 have no form in an
// answer.
func listed(name string) bool { return utf8.ValidString(name) && !strings.HasSuffix(name, temporary) }

// Stat describes a path, not following it.
func (f *FS) Stat(ctx context.Context, path string) (e files.Entry, err error) {
	err = f.as(ctx, func() error {
		return at(path, false, func(dir int, name string) error {
			st, err := lstat(dir, name)
			e = f.entry(path, &st)
			return err
		})
	})
	return e, err
}

// MakeDir makes a directory and its parents. An existing directory is success.
func (f *FS) MakeDir(ctx context.Context, path string) error {
	return f.as(ctx, func() error {
		fd, err := hold(path, true)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	})
}
