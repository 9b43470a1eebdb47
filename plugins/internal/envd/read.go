package envd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// ReadFile implements backend.Backend.
func (c *Client) ReadFile(ctx context.Context, ref backend.Ref, p string) (io.ReadCloser, backend.Entry, error) {
	const op = "ReadFile"
	if err := c.invalid(op, p); err != nil {
		return nil, backend.Entry{}, err
	}
	var e backend.Entry
	var r *reader
	err := c.do(ctx, call{op: op, id: ref.ID, subject: backend.SubjectFile, again: true}, func(ctx context.Context, b *box) error {
		short, cancel := c.short(ctx)
		defer cancel()
		var err error
		if e, err = c.about(short, b, op, p); err != nil {
			return err
		}
		// Opening a pipe would wait for somebody to write to it.
		if e.Type != backend.EntryFile {
			return c.wrongType(op, "the path is no regular file")
		}
		r, err = c.get(ctx, b, op, p)
		return err
	})
	if err != nil {
		return nil, backend.Entry{}, err
	}
	e.Size = r.size
	return r, e, nil
}

// get opens the content of a file.
func (c *Client) get(ctx context.Context, b *box, op, p string) (*reader, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	query := url.Values{"path": {p}, "username": {c.opts.User}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"/files?"+query.Encode(), nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	// What is declared is what is read: no encoding, and a length.
	req.Header.Set("Accept-Encoding", "identity")
	res, err := b.http.Do(req)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	switch {
	case res.StatusCode != http.StatusOK:
		defer cancel(nil)
		if err := c.noRedirect(op, res); err != nil {
			return nil, err
		}
		return nil, fault.Read(res)
	case res.Header.Get("Content-Disposition") == "":
		// The daemon always names the file; a page in between does not.
		defer cancel(nil)
		r := fault.Read(res)
		r.Page = true
		return nil, r
	case res.ContentLength < 0 || res.Header.Get("Content-Encoding") != "":
		cancel(nil)
		_ = res.Body.Close()
		return nil, c.fail(op, backend.KindInternal, "the gateway hides how long the file is")
	}
	r := &reader{c: c, op: op, body: res.Body, ctx: ctx, cancel: cancel, size: res.ContentLength, left: res.ContentLength}
	r.silence = time.AfterFunc(c.opts.Silence, func() { cancel(errSilent) })
	r.silence.Stop()
	return r, nil
}

// reader is the content of a file. It fails when it ends early or stalls; the time
// between two Reads is its reader's own.
type reader struct {
	c          *Client
	op         string
	body       io.ReadCloser
	ctx        context.Context
	cancel     context.CancelCauseFunc
	silence    *time.Timer
	size, left int64
}

func (r *reader) Read(p []byte) (int, error) {
	r.silence.Reset(r.c.opts.Silence)
	defer r.silence.Stop()
	n, err := r.body.Read(p)
	r.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF) && r.left == 0:
		return n, io.EOF
	case errors.Is(context.Cause(r.ctx), errSilent):
		err = errSilent
	case r.ctx.Err() != nil:
		return n, r.ctx.Err()
	}
	return n, r.c.fail(r.op, backend.KindUnavailable, "the file's content was cut: %w", err)
}

func (r *reader) Close() error {
	r.silence.Stop()
	r.cancel(nil)
	return r.body.Close()
}
