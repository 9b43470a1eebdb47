package generic

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/caisson-run/caisson/sdk/backend"
)

// place puts one input where it belongs. An optional one that cannot be placed
// is noted.
func (r *run) place(ctx context.Context, i int) error {
	in := &r.spec.Inputs[i]
	err := r.placeFrom(ctx, i, in)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !in.Optional {
		return fmt.Errorf("input %q: %w", in.Path, err)
	}
	r.result.MissingInputs = append(r.result.MissingInputs, in.Path)
	return nil
}

func (r *run) placeFrom(ctx context.Context, i int, in *backend.Input) error {
	var content io.Reader
	switch {
	case in.CopyFrom != nil:
		return r.copyFrom(ctx, in)
	case in.Chunked:
		c, err := r.live.Input(i)
		if err != nil {
			return err
		}
		defer func() { _, _ = io.Copy(io.Discard, c) }() // it is read to its end whatever happens
		content = c
	default:
		content = bytes.NewReader(in.Inline)
	}
	e, err := r.p.WriteFile(ctx, r.spec.Ref, in.Path, backend.WriteOptions{}, content)
	r.result.Usage.BytesIn += e.Size
	return err
}

// ErrDigest says that a source has other content than was asked for.
var ErrDigest = errors.New("the file has changed")

// CopyError makes the error of an input that could not be copied from another sandbox.
// Whatever is wrong with that one, it says nothing about the sandbox of the run.
func CopyError(src *backend.CopySource, err error) *backend.Error {
	kind := backend.KindOf(err)
	if errors.Is(err, ErrDigest) || kind == backend.KindTerminal {
		kind = backend.KindNotFound
	}
	e := backend.Errorf(kind, op, "copy from %q: %s", src.Path, err)
	e.Subject = backend.SubjectFile
	return e
}

// copyFrom copies a file of another sandbox.
func (r *run) copyFrom(ctx context.Context, in *backend.Input) error {
	src := in.CopyFrom
	err := r.copyFile(ctx, in)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return CopyError(src, err)
}

func (r *run) copyFile(ctx context.Context, in *backend.Input) error {
	src := in.CopyFrom
	content, entry, err := r.p.ReadFile(ctx, backend.Ref{Config: r.spec.Config, ID: src.ID}, src.Path)
	if err != nil {
		return err
	}
	defer content.Close()
	if src.SHA256 != "" && entry.SHA256 != "" && entry.SHA256 != src.SHA256 {
		return ErrDigest
	}
	e, err := r.p.WriteFile(ctx, r.spec.Ref, in.Path, backend.WriteOptions{Mode: entry.Mode},
		Verified(content, src.SHA256))
	r.result.Usage.BytesIn += e.Size
	return err
}

// Verified returns a reader that fails with ErrDigest at the end of content whose
// SHA-256 is not want, lower-case hex, so that it never replaces anything. An empty
// want is any.
func Verified(r io.Reader, want string) io.Reader {
	return &verified{r: r, sum: sha256.New(), want: want}
}

type verified struct {
	r    io.Reader
	sum  hash.Hash
	want string
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && v.want != "" && hex.EncodeToString(v.sum.Sum(nil)) != v.want {
		return n, ErrDigest
	}
	return n, err
}
