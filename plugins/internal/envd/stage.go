package envd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/caisson-run/caisson/sdk/backend"
)

// stage uploads an input, and returns the mode that it gets.
func (r *run) stage(ctx context.Context, i int, in *backend.Input, staged string) (uint32, error) {
	mode := uint32(0o644)
	var content io.Reader
	switch {
	case in.CopyFrom != nil:
		return r.copyFrom(ctx, in.CopyFrom, staged)
	case in.Chunked:
		chunks, err := r.live.Input(i)
		if err != nil {
			return mode, err
		}
		defer func() { // it is read to its end whatever happens
			if ctx.Err() == nil {
				_, _ = io.Copy(io.Discard, chunks)
			}
		}()
		content = chunks
	default:
		content = bytes.NewReader(in.Inline)
	}
	n, err := r.c.upload(ctx, r.op, r.spec.ID, staged, &limited{r: content, left: r.c.opts.MaxFileBytes})
	r.result.Usage.BytesIn += n
	return mode, err
}

// errDigest says that a source has other content than was asked for.
var errDigest = errors.New("the file has changed")

// copyFrom stages a file of another sandbox. Whatever is wrong with that one, it says
// nothing about the sandbox of the run.
func (r *run) copyFrom(ctx context.Context, src *backend.CopySource, staged string) (uint32, error) {
	from, e, err := r.c.ReadFile(ctx, backend.Ref{Config: r.spec.Config, ID: src.ID}, src.Path)
	if err != nil {
		return 0, r.aboutSource(src, err)
	}
	defer from.Close()
	v := &verified{r: &limited{r: from, left: r.c.opts.MaxFileBytes}, sum: sha256.New(), want: src.SHA256}
	n, err := r.c.upload(ctx, r.op, r.spec.ID, staged, v)
	r.result.Usage.BytesIn += n
	if v.bad {
		err = errDigest
	}
	if err != nil && !backend.ProvesGone(err) {
		err = r.aboutSource(src, err)
	}
	return cmp.Or(e.Mode, 0o644), err
}

func (r *run) aboutSource(src *backend.CopySource, err error) error {
	kind := backend.KindOf(err)
	if errors.Is(err, errDigest) || kind == backend.KindTerminal {
		kind = backend.KindNotFound
	}
	e := r.c.fail(r.op, kind, "copy from %q: %s", src.Path, err)
	e.Subject = backend.SubjectFile
	return e
}

// verified fails at the end of content that is not what was wanted, so that it never
// replaces anything.
type verified struct {
	r    io.Reader
	sum  hash.Hash
	want string
	bad  bool
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && v.want != "" && hex.EncodeToString(v.sum.Sum(nil)) != v.want {
		v.bad = true
		return n, errDigest
	}
	return n, err
}
