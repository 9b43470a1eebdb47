package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// WriteFile replaces a regular file as a whole or not at all.
func (b *Backend) WriteFile(ctx context.Context, ref backend.Ref, p string, opts backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	const op = "WriteFile"
	sb, rel, err := b.at(op, ref, p)
	if err != nil {
		return backend.Entry{}, err
	}
	defer sb.Release()
	e, err := place(ctx, sb, rel, opts, r)
	if err != nil {
		return backend.Entry{}, fileError(op, p, err)
	}
	return e, nil
}

// place streams r into a staged file outside the sandbox's data and moves it
// there in one step. Bytes are charged as they come: content that does not fit
// is refused before it is stored, whatever its length was said to be.
func place(ctx context.Context, sb *store.Sandbox, rel string, opts backend.WriteOptions, r io.Reader) (_ backend.Entry, err error) {
	if rel == "." {
		return backend.Entry{}, changes.ErrNotRegular
	}
	dir, work := sb.Staged()
	f, err := os.CreateTemp(dir, "put-*")
	if err != nil {
		return backend.Entry{}, fmt.Errorf("stage: %w", err)
	}
	staged := f.Name()
	w := &chargedWriter{f: f, quota: sb.Quota, max: opts.MaxBytes}
	defer func() {
		f.Close()
		if err != nil {
			sb.Quota.Release(w.charged, 0)
			os.Remove(staged)
		}
	}()
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(w, sum), contextReader{ctx, r})
	if err != nil {
		return backend.Entry{}, err
	}
	mode := fs.FileMode(orElse(int64(opts.Mode), 0o644)) & fs.ModePerm
	if err := f.Chmod(mode | 0o600); err != nil {
		return backend.Entry{}, err
	}
	if err := sb.Tree.MakeDirs(path.Dir(rel)); err != nil {
		return backend.Entry{}, err
	}
	// Give back what was charged in advance beyond the content.
	sb.Quota.Release(w.charged-size, 0)
	w.charged = size
	moment := sb.Quota.Writes().Now()
	err = sb.Tree.Install(rel, func(dir *os.File, base string) error {
		return renameInto(work, path.Base(staged), dir, base, opts.Exclusive)
	})
	if err != nil {
		return backend.Entry{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return backend.Entry{}, err
	}
	e := entry(path.Join(backend.DataDir, rel), info)
	e.SHA256 = hex.EncodeToString(sum.Sum(nil))
	sb.Index.Note(rel, info, e.SHA256, moment)
	return e, nil
}

// chargeStep is how much is charged at a time.
const chargeStep = 1 << 20

// chargedWriter writes what the account and the caller's bound allow.
type chargedWriter struct {
	f       *os.File
	quota   *rootfs.Quota
	max     int64 // 0 is no bound
	written int64
	charged int64
}

func (w *chargedWriter) Write(p []byte) (int, error) {
	end := w.written + int64(len(p))
	if w.max > 0 && end > w.max {
		return 0, fmt.Errorf("%w: at most %d bytes", errTooLarge, w.max)
	}
	if more := end - w.charged; more > 0 {
		// In steps while there is room for them, exactly when there is not.
		for _, n := range []int64{max(more, chargeStep), more} {
			err := w.quota.Charge(n, 0)
			if err == nil {
				w.charged += n
				break
			}
			if n == more {
				return 0, err
			}
		}
	}
	n, err := w.f.Write(p)
	w.written += int64(n)
	return n, err
}

// contextReader ends with its context, whatever its reader does.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && c.ctx.Err() != nil {
		err = c.ctx.Err()
	}
	return n, err
}
