//go:build linux

package work

import (
	"context"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/caisson-run/caisson/plugins/docker/agent/internal/tree"
	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
)

// Canceled is the kind of a fault about a request that was cancelled before it was done.
const Canceled = "canceled"

// Fault returns what the plugin is told of an error.
func Fault(err error) *agentwire.Fault {
	var f *agentwire.Fault
	var errno syscall.Errno
	about := func(kind, subject string) *agentwire.Fault {
		return &agentwire.Fault{Kind: kind, Subject: subject, Text: err.Error()}
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return f
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return about(Canceled, "")
	case errors.Is(err, tree.ErrDigest):
		return about("not_found", "file")
	case errors.Is(err, tree.ErrTooLarge):
		return about("invalid_request", "file")
	case errors.Is(err, tree.ErrNotRegular):
		return about("conflict", "file")
	case errors.Is(err, tree.ErrTooMany):
		return about("capacity", "file")
	case !errors.As(err, &errno):
		return about("internal", "")
	}
	switch errno {
	case unix.ENOENT:
		return about("not_found", "file")
	case unix.ENOTDIR, unix.ELOOP:
		return &agentwire.Fault{Kind: "conflict", Subject: "file", Text: "a file or a link is where a directory is needed"}
	case unix.EISDIR, unix.EEXIST, unix.ENOTEMPTY, unix.ETXTBSY, unix.EBUSY:
		return about("conflict", "file")
	case unix.EACCES, unix.EPERM, unix.ENAMETOOLONG, unix.EINVAL, unix.EROFS:
		return about("invalid_request", "file")
	case unix.ENOSPC, unix.EDQUOT:
		return about("capacity", "file")
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EFBIG, unix.EMLINK:
		return about("capacity", "")
	}
	return about("internal", "")
}
