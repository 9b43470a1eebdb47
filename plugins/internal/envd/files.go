package envd

import (
	"context"
	"path"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"github.com/caisson-run/caisson/plugins/internal/envd/envdpb/filesystempb"
	"github.com/caisson-run/caisson/sdk/backend"
)

// invalid refuses a path before anything is asked.
func (c *Client) invalid(op, p string) error {
	if err := backend.CheckPath(p); err != nil {
		e := c.fail(op, backend.KindInvalidRequest, "%w", err)
		e.Subject = backend.SubjectFile
		return e
	}
	return nil
}

// entry makes the contract's entry of the daemon's. Links are told by their target
// alone: the type is that of what they lead to.
func entry(p string, i *filesystempb.EntryInfo) backend.Entry {
	e := backend.Entry{Path: p, Type: backend.EntryOther, Mode: i.GetMode() & 0o777}
	if t := i.GetModifiedTime(); t.IsValid() {
		e.Modified = t.AsTime()
	}
	switch {
	case i.SymlinkTarget != nil:
	case i.GetType() == filesystempb.FileType_FILE_TYPE_FILE:
		e.Type, e.Size = backend.EntryFile, max(i.GetSize(), 0)
	case i.GetType() == filesystempb.FileType_FILE_TYPE_DIRECTORY:
		e.Type = backend.EntryDir
	}
	return e
}

// stat asks about one path.
func stat(ctx context.Context, b *box, p string) (backend.Entry, error) {
	res, err := b.files.Stat(ctx, connect.NewRequest(&filesystempb.StatRequest{Path: p}))
	if err != nil {
		return backend.Entry{}, err
	}
	return entry(p, res.Msg.GetEntry()), nil
}

// trail describes a path and every directory above it, the root left out, all at once.
// What is missing has an empty Type.
func (c *Client) trail(ctx context.Context, b *box, op, p string) ([]backend.Entry, error) {
	var paths []string
	for q := p; q != "/"; q = path.Dir(q) {
		paths = append(paths, q)
	}
	slices.Reverse(paths)
	entries := make([]backend.Entry, len(paths))
	var g errgroup.Group
	g.SetLimit(8)
	for i, q := range paths {
		g.Go(func() error {
			e, err := stat(ctx, b, q)
			// What the daemon says of something below a file differs between versions;
			// the file itself tells.
			if err != nil && connect.IsWireError(err) {
				switch connect.CodeOf(err) {
				case connect.CodeNotFound:
					return nil
				case connect.CodeInternal, connect.CodeInvalidArgument, connect.CodeFailedPrecondition:
					if i > 0 {
						return nil
					}
				}
			}
			entries[i] = e
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, e := range entries[:max(len(entries)-1, 0)] {
		switch e.Type {
		case backend.EntryDir:
		case "", backend.EntryFile:
			return nil, c.absent(op)
		default:
			return nil, c.linked(op)
		}
	}
	return entries, nil
}

func (c *Client) absent(op string) error {
	e := c.fail(op, backend.KindNotFound, "there is no such path")
	e.Subject = backend.SubjectFile
	return e
}

func (c *Client) linked(op string) error {
	e := c.fail(op, backend.KindConflict, "the path leads through a link or something else that is no directory")
	e.Subject = backend.SubjectFile
	return e
}

func (c *Client) wrongType(op, text string) error {
	e := c.fail(op, backend.KindConflict, "%s", text)
	e.Subject = backend.SubjectFile
	return e
}

// about describes a path that exists and whose parents are directories.
func (c *Client) about(ctx context.Context, b *box, op, p string) (backend.Entry, error) {
	if p == "/" {
		return stat(ctx, b, p)
	}
	entries, err := c.trail(ctx, b, op, p)
	if err != nil {
		return backend.Entry{}, err
	}
	e := entries[len(entries)-1]
	if e.Type == "" {
		return e, c.absent(op)
	}
	return e, nil
}

// onFile carries out a call about a path, again if need be.
func (c *Client) onFile(ctx context.Context, op string, ref backend.Ref, p string, f func(ctx context.Context, b *box) error) error {
	if err := c.invalid(op, p); err != nil {
		return err
	}
	ctx, cancel := c.short(ctx)
	defer cancel()
	return c.do(ctx, call{op: op, id: ref.ID, subject: backend.SubjectFile, again: true}, f)
}

// Stat implements backend.Backend.
func (c *Client) Stat(ctx context.Context, ref backend.Ref, p string) (backend.Entry, error) {
	const op = "Stat"
	var e backend.Entry
	err := c.onFile(ctx, op, ref, p, func(ctx context.Context, b *box) (err error) {
		if e, err = c.about(ctx, b, op, p); err != nil && p == backend.DataDir && backend.IsNotFound(err) {
			return c.dataDir(ctx, b, op, &e)
		}
		return err
	})
	return e, err
}

// dataDir makes the directory that every sandbox has as far as anybody else can see.
func (c *Client) dataDir(ctx context.Context, b *box, op string, e *backend.Entry) error {
	if err := c.makeDir(ctx, b, op, backend.DataDir); err != nil {
		return err
	}
	var err error
	*e, err = c.about(ctx, b, op, backend.DataDir)
	return err
}

// ListDir implements backend.Backend.
func (c *Client) ListDir(ctx context.Context, ref backend.Ref, p string) ([]backend.Entry, error) {
	const op = "ListDir"
	var list []backend.Entry
	err := c.onFile(ctx, op, ref, p, func(ctx context.Context, b *box) error {
		dir, err := c.about(ctx, b, op, p)
		if err != nil && p == backend.DataDir && backend.IsNotFound(err) {
			err = c.dataDir(ctx, b, op, &dir)
		}
		if err != nil {
			return err
		}
		if dir.Type != backend.EntryDir {
			return c.wrongType(op, "the path is no directory")
		}
		res, err := b.files.ListDir(ctx, connect.NewRequest(&filesystempb.ListDirRequest{Path: p, Depth: 1}))
		if err != nil {
			return err
		}
		list = make([]backend.Entry, 0, len(res.Msg.GetEntries()))
		for _, i := range res.Msg.GetEntries() {
			q := path.Join(p, i.GetName())
			if strings.Contains(i.GetName(), "/") || backend.CheckPath(q) != nil || path.Dir(q) != p {
				return c.fail(op, backend.KindInternal, "the daemon listed a name that is none")
			}
			list = append(list, entry(q, i))
		}
		slices.SortFunc(list, func(a, b backend.Entry) int { return strings.Compare(a.Path, b.Path) })
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// MakeDir implements backend.Backend.
func (c *Client) MakeDir(ctx context.Context, ref backend.Ref, p string) error {
	const op = "MakeDir"
	return c.onFile(ctx, op, ref, p, func(ctx context.Context, b *box) error {
		return c.makeDir(ctx, b, op, p)
	})
}

func (c *Client) makeDir(ctx context.Context, b *box, op, p string) error {
	// Parents that are missing are made; what exists has to be a directory.
	for q := p; q != "/"; q = path.Dir(q) {
		e, err := stat(ctx, b, q)
		switch {
		case err == nil && e.Type == backend.EntryDir:
			if q == p {
				return nil
			}
			continue
		case err == nil && e.Type == backend.EntryFile:
			return c.wrongType(op, "a file is in the way")
		case err == nil:
			return c.linked(op)
		case !connect.IsWireError(err):
			return err
		}
	}
	_, err := b.files.MakeDir(ctx, connect.NewRequest(&filesystempb.MakeDirRequest{Path: p}))
	if err == nil {
		return nil
	}
	// Another may have made it meanwhile; daemons differ in what they say then.
	if e, serr := stat(ctx, b, p); serr == nil && e.Type == backend.EntryDir {
		return nil
	}
	return err
}

// Remove implements backend.Backend.
func (c *Client) Remove(ctx context.Context, ref backend.Ref, p string) error {
	const op = "Remove"
	return c.onFile(ctx, op, ref, p, func(ctx context.Context, b *box) error {
		if p == "/" {
			return c.wrongType(op, "the root cannot be removed")
		}
		_, err := c.trail(ctx, b, op, p)
		if backend.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return remove(ctx, b, p)
	})
}

func remove(ctx context.Context, b *box, p string) error {
	_, err := b.files.Remove(ctx, connect.NewRequest(&filesystempb.RemoveRequest{Path: p}))
	return err
}
