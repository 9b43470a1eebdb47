package embedded

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// Bounds of a walk that asks for none.
const (
	walkEntries     = 100_000
	walkDepth       = 64
	walkDigestBytes = 1 << 30
)

// relative returns a sandbox path as the data root knows it: "." or "a/b".
// Nothing outside backend.DataDir can be reached from outside a run.
func relative(op, p string) (string, error) {
	err := backend.CheckPath(p)
	if err == nil && !backend.Within(backend.DataDir, p) {
		err = errors.New("only files below " + backend.DataDir + " can be reached")
	}
	if err != nil {
		e := backend.Errorf(backend.KindInvalidRequest, op, "path: %w", err)
		e.Subject = backend.SubjectFile
		return "", e
	}
	return path.Clean("./" + strings.TrimPrefix(p, backend.DataDir)), nil
}

// at takes a sandbox into use and resolves a path in it.
func (b *Backend) at(op string, ref backend.Ref, p string) (*store.Sandbox, string, error) {
	rel, err := relative(op, p)
	if err != nil {
		return nil, "", err
	}
	sb, err := b.use(op, ref)
	return sb, rel, err
}

// Stat describes a path.
func (b *Backend) Stat(_ context.Context, ref backend.Ref, p string) (backend.Entry, error) {
	const op = "Stat"
	sb, rel, err := b.at(op, ref, p)
	if err != nil {
		return backend.Entry{}, err
	}
	defer sb.Release()
	info, err := sb.Data.Lstat(rel)
	if err != nil {
		return backend.Entry{}, fileError(op, p, err)
	}
	return entry(p, info), nil
}

func entry(p string, info fs.FileInfo) backend.Entry {
	e := backend.Entry{Path: p, Type: backend.EntryOther, Modified: info.ModTime().UTC(), Mode: uint32(info.Mode().Perm())}
	switch {
	case info.Mode().IsRegular():
		e.Type, e.Size = backend.EntryFile, info.Size()
	case info.IsDir():
		e.Type = backend.EntryDir
	}
	return e
}

// ReadFile opens a regular file. The sandbox stays in use until it is closed.
func (b *Backend) ReadFile(_ context.Context, ref backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
	const op = "ReadFile"
	sb, rel, err := b.at(op, ref, p)
	if err != nil {
		return nil, backend.Entry{}, err
	}
	f, info, err := changes.OpenRegular(sb.Data, rel)
	if err != nil {
		sb.Release()
		return nil, backend.Entry{}, fileError(op, p, err)
	}
	return &heldFile{File: f, sb: sb}, entry(p, info), nil
}

// heldFile keeps its sandbox in use.
type heldFile struct {
	*os.File
	sb *store.Sandbox
}

func (f *heldFile) Close() error {
	err := f.File.Close()
	if !errors.Is(err, os.ErrClosed) {
		f.sb.Release()
	}
	return err
}

// ListDir lists one directory.
func (b *Backend) ListDir(_ context.Context, ref backend.Ref, p string) ([]backend.Entry, error) {
	const op = "ListDir"
	sb, rel, err := b.at(op, ref, p)
	if err != nil {
		return nil, err
	}
	defer sb.Release()
	info, err := sb.Data.Lstat(rel)
	if err == nil && !info.IsDir() {
		err = errNotDir
	}
	if err != nil {
		return nil, fileError(op, p, err)
	}
	list, err := fs.ReadDir(sb.Data.FS(), rel)
	if err != nil {
		return nil, fileError(op, p, err)
	}
	out := make([]backend.Entry, 0, len(list))
	for _, d := range list {
		if !utf8.ValidString(d.Name()) {
			continue // no caller could name it
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // went away meanwhile
		}
		if err != nil {
			return nil, fileError(op, p, err)
		}
		out = append(out, entry(path.Join(p, d.Name()), info))
	}
	return out, nil
}

// Walk lists a tree.
func (b *Backend) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	const op = "Walk"
	root := orElse(req.Root, backend.DataDir)
	sb, rel, err := b.at(op, req.Ref, root)
	if err != nil {
		return backend.WalkResult{}, err
	}
	defer sb.Release()
	var r backend.WalkResult
	maxEntries, maxDepth := orElse(req.MaxEntries, walkEntries), orElse(req.MaxDepth, walkDepth)
	err = fs.WalkDir(sb.Data.FS(), rel, func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if p != rel && swapped(err) {
				return nil
			}
			return err
		}
		if p == rel {
			if !d.IsDir() {
				return errNotDir
			}
			return nil
		}
		if backend.Excluded(req.Exclude, d.Name()) || !utf8.ValidString(d.Name()) {
			return skip(d)
		}
		info, err := d.Info()
		if err != nil && swapped(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(r.Entries) == maxEntries {
			r.Truncated = true
			return fs.SkipAll
		}
		e := entry(path.Join(backend.DataDir, p), info)
		if req.Digests && e.Type == backend.EntryFile {
			f, err := sb.Index.Digest(ctx, sb.Data, p, orElse(req.MaxDigestBytes, walkDigestBytes))
			if err != nil && !swapped(err) && !errors.Is(err, changes.ErrNotRegular) {
				return err
			}
			e.SHA256 = f.SHA256
		}
		r.Entries = append(r.Entries, e)
		if d.IsDir() && strings.Count(strings.TrimPrefix(e.Path, root), "/") >= maxDepth {
			r.Truncated = true
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return backend.WalkResult{}, fileError(op, root, err)
	}
	return r, nil
}

// swapped reports whether an error about an entry of a listing says that it is not
// what was listed any more.
func swapped(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) || isEscape(err)
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// orElse is cmp.Or for values where a negative means nothing either.
func orElse[T int | int64 | string](v, def T) T {
	var zero T
	if v <= zero {
		return def
	}
	return v
}

// MakeDir makes a directory and its parents.
func (b *Backend) MakeDir(_ context.Context, ref backend.Ref, p string) error {
	const op = "MakeDir"
	sb, rel, err := b.at(op, ref, p)
	if err != nil {
		return err
	}
	defer sb.Release()
	return fileError(op, p, sb.Tree.MakeDirs(rel))
}

// Remove deletes a file or a tree.
func (b *Backend) Remove(ctx context.Context, ref backend.Ref, p string) error {
	const op = "Remove"
	sb, rel, err := b.at(op, ref, p)
	if err != nil {
		return err
	}
	defer sb.Release()
	if rel == "." {
		return backend.Errorf(backend.KindInvalidRequest, op, "path: %s itself cannot be removed", backend.DataDir)
	}
	return fileError(op, p, sb.Tree.RemoveAll(ctx, rel))
}
