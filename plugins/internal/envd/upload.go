package envd

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// content counts what a request reads, and keeps the reader's own error apart from
// the connection's. A Read may outlive the request.
type content struct {
	r io.Reader

	mu   sync.Mutex
	size int64
	err  error
}

func (r *content) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size += int64(n)
	if err != nil {
		r.err = err
	}
	return n, err
}

// state returns what was read so far and the reader's own error, nil at its end.
func (r *content) state() (size int64, spent bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.Is(r.err, io.EOF) {
		err = r.err
	}
	return r.size, r.size > 0 || r.err != nil, err
}

// upload stores content at a path, making its parents, and returns its size. The file
// there is replaced in place, whatever is there, and not at once: only paths of our
// own are uploaded to. What is left of a failed upload is removed.
func (c *Client) upload(ctx context.Context, op, id, path string, r io.Reader) (int64, error) {
	body := &content{r: r}
	q := call{op: op, id: id, subject: backend.SubjectFile, spent: func() bool { _, spent, _ := body.state(); return spent }}
	err := c.do(ctx, q, func(ctx context.Context, b *box) error {
		return c.post(ctx, op, b, path, body)
	})
	size, _, failed := body.state()
	if failed != nil {
		err = c.unread(ctx, op, failed)
	}
	if err != nil {
		c.discard(ctx, op, id, path)
		if (size > 0 || failed != nil) && !backend.ProvesGone(err) {
			// The daemon may have been about to store what came before it noticed.
			_ = sleep(context.WithoutCancel(ctx), 100*time.Millisecond)
			c.discard(ctx, op, id, path)
		}
		return 0, err
	}
	return size, nil
}

// errAborted ends the body of a request before its end.
var errAborted = errors.New("upload aborted")

// post sends one file as a form: the one way that every daemon understands.
func (c *Client) post(ctx context.Context, op string, b *box, path string, body io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.opts.Silence, func() { cancel(errSilent) })
	defer silence.Stop()
	read, write := io.Pipe()
	form := multipart.NewWriter(write)
	done := make(chan struct{})
	go func() {
		defer close(done)
		part, err := form.CreateFormFile("file", "file")
		if err == nil {
			_, err = io.Copy(part, &progress{body, silence, c.opts.Silence})
		}
		if err == nil {
			err = form.Close()
		}
		if err != nil {
			err = errAborted
		}
		_ = write.CloseWithError(err)
	}()
	defer func() {
		// The reader of the content may be stuck: it ends with the caller, not here.
		_ = read.CloseWithError(errAborted)
	}()
	query := url.Values{"path": {path}, "username": {c.opts.User}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+"/files?"+query.Encode(), read)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	res, err := b.http.Do(req)
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			return c.fail(op, backend.KindUnavailable, "%w", errSilent)
		}
		return err
	}
	if res.StatusCode != http.StatusOK {
		if err := c.noRedirect(op, res); err != nil {
			return err
		}
		return fault.Read(res)
	}
	// The answer is JSON in text/plain; somebody else's is a page.
	if r := fault.Read(res); r.Page {
		return r
	}
	<-done
	return nil
}

// progress says that an upload goes on. Waiting for the content is not the daemon's silence.
type progress struct {
	r       io.Reader
	silence *time.Timer
	limit   time.Duration
}

func (p *progress) Read(b []byte) (int, error) {
	p.silence.Stop()
	n, err := p.r.Read(b)
	p.silence.Reset(p.limit)
	return n, err
}

// discard removes a path of our own, whatever became of the caller.
func (c *Client) discard(ctx context.Context, op, id, path string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	_ = c.do(ctx, call{op: op, id: id, again: true}, func(ctx context.Context, b *box) error {
		return remove(ctx, b, path)
	})
}

// short bounds a call that has nothing to wait for.
func (c *Client) short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.opts.Timeout)
}
