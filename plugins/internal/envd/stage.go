package envd

import (
	"bytes"
	"cmp"
	"context"
	"io"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/generic"
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

// copyFrom stages a file of another sandbox.
func (r *run) copyFrom(ctx context.Context, src *backend.CopySource, staged string) (uint32, error) {
	from, e, err := r.c.ReadFile(ctx, backend.Ref{Config: r.spec.Config, ID: src.ID}, src.Path)
	if err != nil {
		return 0, generic.CopyError(src, err)
	}
	defer from.Close()
	n, err := r.c.upload(ctx, r.op, r.spec.ID, staged, generic.Verified(&limited{r: from, left: r.c.opts.MaxFileBytes}, src.SHA256))
	r.result.Usage.BytesIn += n
	if err != nil && !backend.ProvesGone(err) {
		err = generic.CopyError(src, err)
	}
	return cmp.Or(e.Mode, 0o644), err
}
