package hostbackend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// maxWrite is what WriteOptions.MaxBytes means by zero.
const maxWrite = 1 << 30

// rel turns a path of the sandbox into one below its root.
func rel(op, p string) (string, error) {
	if err := backend.CheckPath(p); err != nil {
		return "", backend.Errorf(backend.KindInvalidRequest, op, "%w", err)
	}
	if p == "/" {
		return ".", nil
	}
	return p[1:], nil
}

// fileError says what is wrong with a file.
func fileError(op string, err error) error {
	var own *backend.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	kind := backend.KindInternal
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		kind = backend.KindNotFound
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.EISDIR):
		kind = backend.KindConflict
	case errors.Is(err, fs.ErrInvalid), strings.Contains(err.Error(), "escapes"), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG):
		kind = backend.KindInvalidRequest
	}
	e := backend.Errorf(kind, op, "%w", err)
	e.Subject, e.Plane = backend.SubjectFile, backend.PlaneData
	return e
}

func entryOf(p string, info fs.FileInfo) backend.Entry {
	e := backend.Entry{Path: p, Type: backend.EntryOther, Modified: info.ModTime().UTC(), Mode: uint32(info.Mode().Perm())}
	switch {
	case info.Mode().IsRegular():
		e.Type, e.Size = backend.EntryFile, info.Size()
	case info.IsDir():
		e.Type = backend.EntryDir
	}
	return e
}

// Walk implements backend.Backend.
func (b *Backend) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	const op = "Walk"
	x, err := b.awake(ctx, op, req.Ref)
	if err != nil {
		return backend.WalkResult{}, err
	}
	root := req.Root
	if root == "" {
		root = backend.DataDir
	}
	start, err := rel(op, root)
	if err != nil {
		return backend.WalkResult{}, err
	}
	var res backend.WalkResult
	limit := req.MaxEntries
	if limit == 0 {
		limit = 100_000
	}
	err = fs.WalkDir(x.root.FS(), start, func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if p == start {
			return nil
		}
		if backend.Excluded(req.Exclude, d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if depth := strings.Count(p, "/") - strings.Count(start, "/"); req.MaxDepth > 0 && depth > req.MaxDepth {
			res.Truncated = true
			return fs.SkipDir
		}
		if len(res.Entries) >= limit {
			res.Truncated = true
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return nil // went away meanwhile
		}
		e := entryOf("/"+p, info)
		if req.Digests && e.Type == backend.EntryFile && (req.MaxDigestBytes == 0 || e.Size <= req.MaxDigestBytes) {
			if f, err := x.index.Digest(ctx, x.root, p, maxWrite); err == nil {
				e.SHA256, e.Size = f.SHA256, f.Size
			}
		}
		res.Entries = append(res.Entries, e)
		return nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return backend.WalkResult{}, ctx.Err()
		}
		return backend.WalkResult{}, fileError(op, err)
	}
	return res, nil
}

// ReadFile implements backend.Backend.
func (b *Backend) ReadFile(ctx context.Context, ref backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
	const op = "ReadFile"
	x, name, err := b.file(ctx, op, ref, p)
	if err != nil {
		return nil, backend.Entry{}, err
	}
	f, info, err := changes.OpenRegular(x.root, name)
	switch {
	case errors.Is(err, changes.ErrNotRegular):
		return nil, backend.Entry{}, backend.Errorf(backend.KindInvalidRequest, op, "not a regular file")
	case err != nil:
		return nil, backend.Entry{}, fileError(op, err)
	}
	return f, entryOf(p, info), nil
}

func (b *Backend) file(ctx context.Context, op string, ref backend.Ref, p string) (*box, string, error) {
	x, err := b.awake(ctx, op, ref)
	if err != nil {
		return nil, "", err
	}
	name, err := rel(op, p)
	return x, name, err
}

var staged atomic.Int64

// WriteFile implements backend.Backend.
func (b *Backend) WriteFile(ctx context.Context, ref backend.Ref, p string, opts backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	const op = "WriteFile"
	x, name, err := b.file(ctx, op, ref, p)
	if err != nil {
		return backend.Entry{}, err
	}
	mode := fs.FileMode(opts.Mode).Perm()
	if mode == 0 {
		mode = 0o644
	}
	limit := opts.MaxBytes
	if limit == 0 {
		limit = maxWrite
	}
	stage := "stage/" + strconv.FormatInt(staged.Add(1), 10)
	f, err := x.root.OpenFile(stage, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return backend.Entry{}, fileError(op, err)
	}
	defer func() { _ = x.root.Remove(stage) }()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(r, limit+1))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	switch {
	case ctx.Err() != nil:
		return backend.Entry{}, ctx.Err()
	case err != nil:
		return backend.Entry{}, err
	case n > limit:
		return backend.Entry{}, backend.Errorf(backend.KindInvalidRequest, op, "longer than %d bytes", limit)
	}
	if err := x.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return backend.Entry{}, fileError(op, err)
	}
	if opts.Exclusive {
		err = x.root.Link(stage, name)
	} else {
		err = x.root.Rename(stage, name)
	}
	if err != nil {
		return backend.Entry{}, fileError(op, err)
	}
	info, err := x.root.Lstat(name)
	if err != nil {
		return backend.Entry{}, fileError(op, err)
	}
	e := entryOf(p, info)
	e.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return e, nil
}

// Stat implements backend.Backend.
func (b *Backend) Stat(ctx context.Context, ref backend.Ref, p string) (backend.Entry, error) {
	x, name, err := b.file(ctx, "Stat", ref, p)
	if err != nil {
		return backend.Entry{}, err
	}
	info, err := x.root.Lstat(name)
	if err != nil {
		return backend.Entry{}, fileError("Stat", err)
	}
	return entryOf(p, info), nil
}

// ListDir implements backend.Backend.
func (b *Backend) ListDir(ctx context.Context, ref backend.Ref, p string) ([]backend.Entry, error) {
	const op = "ListDir"
	x, name, err := b.file(ctx, op, ref, p)
	if err != nil {
		return nil, err
	}
	if info, err := x.root.Lstat(name); err != nil {
		return nil, fileError(op, err)
	} else if !info.IsDir() {
		return nil, fileError(op, backend.Errorf(backend.KindInvalidRequest, op, "%q is not a directory", p))
	}
	list, err := fs.ReadDir(x.root.FS(), name)
	if err != nil {
		return nil, fileError(op, err)
	}
	out := []backend.Entry{}
	for _, d := range list {
		if info, err := d.Info(); err == nil {
			out = append(out, entryOf(path.Join(p, d.Name()), info))
		}
	}
	return out, nil
}

// MakeDir implements backend.Backend.
func (b *Backend) MakeDir(ctx context.Context, ref backend.Ref, p string) error {
	x, name, err := b.file(ctx, "MakeDir", ref, p)
	if err != nil {
		return err
	}
	err = x.root.MkdirAll(name, 0o755)
	if errors.Is(err, syscall.ENOTDIR) {
		err = fs.ErrExist
	}
	return fileError("MakeDir", err)
}

// Remove implements backend.Backend.
func (b *Backend) Remove(ctx context.Context, ref backend.Ref, p string) error {
	x, name, err := b.file(ctx, "Remove", ref, p)
	if err != nil {
		return err
	}
	if name == "." || p == backend.DataDir {
		return backend.Errorf(backend.KindInvalidRequest, "Remove", "%q cannot be removed", p)
	}
	if err := x.root.RemoveAll(name); err != nil && !errors.Is(err, syscall.ENOTDIR) {
		return fileError("Remove", err)
	}
	return nil
}
