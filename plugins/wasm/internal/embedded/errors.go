package embedded

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// sandboxError types an error about a sandbox as a whole. What is not proof of
// absence keeps the sandbox.
func sandboxError(op string, err error) error {
	var kind backend.Kind
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, store.ErrAbsent):
		kind = backend.KindNotFound
	case errors.Is(err, store.ErrExists):
		kind = backend.KindConflict
	case errors.Is(err, store.ErrNoSnapshot):
		return snapshotError(op, err)
	case errors.Is(err, rootfs.ErrQuota), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EMFILE):
		kind = backend.KindCapacity
	default:
		kind = backend.KindInternal
	}
	e := backend.Errorf(kind, op, "%w", err)
	e.Provider, e.Subject, e.Plane = Name, backend.SubjectSandbox, backend.PlaneControl
	return e
}

// snapshotError says of a snapshot that it is not there, which proves nothing about
// a sandbox.
func snapshotError(op string, err error) error {
	e := backend.Errorf(backend.KindNotFound, op, "%w", err)
	e.Provider, e.Subject, e.Plane = Name, backend.SubjectSnapshot, backend.PlaneControl
	return e
}

// fileError types an error about a path inside a sandbox. It proves nothing
// about the sandbox, and its text names the path as callers know it, never the
// host's.
func fileError(op, path string, err error) error {
	var kind backend.Kind
	var typed *backend.Error
	reason, subject := err, backend.SubjectFile
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		kind, reason = backend.KindNotFound, errors.New("no such file")
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTEMPTY):
		kind, reason = backend.KindConflict, errors.New("exists already")
	case errors.Is(err, rootfs.ErrQuota):
		kind, reason = backend.KindCapacity, errors.New("the sandbox's storage is full")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		// No fault of the sandbox, so nothing that its user could do.
		kind, subject, reason = backend.KindCapacity, backend.SubjectSandbox, errors.New("the machine's storage is full")
	case errors.Is(err, changes.ErrNotRegular), errors.Is(err, errNotDir), errors.Is(err, errTooLarge), errors.Is(err, syscall.EISDIR),
		errors.Is(err, rootfs.ErrPath), errors.Is(err, rootfs.ErrIsDir), errors.Is(err, rootfs.ErrNotDir):
		kind = backend.KindInvalidRequest
	case isEscape(err):
		kind, reason = backend.KindInvalidRequest, errors.New("the path leads out of the sandbox")
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EINVAL):
		kind, reason = backend.KindInvalidRequest, errors.New("the path cannot be used")
	default:
		kind = backend.KindInternal
	}
	var pe *fs.PathError
	if errors.As(reason, &pe) {
		reason = pe.Err
	}
	e := backend.Errorf(kind, op, "%s: %w", path, reason)
	e.Provider, e.Subject, e.Plane = Name, subject, backend.PlaneData
	return e
}

var (
	errNotDir   = errors.New("not a directory")
	errTooLarge = errors.New("larger than allowed")
)

// isEscape recognises os.Root's refusal, which has no exported error.
func isEscape(err error) bool {
	var pe *fs.PathError
	return errors.As(err, &pe) && pe.Err != nil && pe.Err.Error() == "path escapes from parent"
}
