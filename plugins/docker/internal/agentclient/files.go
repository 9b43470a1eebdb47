package agentclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/caisson-run/caisson/plugins/docker/internal/agentwire"
	"github.com/caisson-run/caisson/sdk/backend"
)

// inline is how much content goes into a request itself.
const inline = 60 << 10

// maxListed is how many entries an answer may have.
const maxListed = 250_000

// collectEntries gathers entries that come before the answer and in it. It believes none
// that is not what was asked for.
type collectEntries struct {
	list  []backend.Entry
	valid func(*backend.Entry) bool
}

func (l *collectEntries) item(it agentwire.Item) error {
	if it.Channel != agentwire.ChanEntries || !it.Message {
		return errUnexpected(it)
	}
	var m agentwire.Listing
	if err := agentwire.Decode(it.Data, &m); err != nil {
		return err
	}
	return l.add(m.Entries)
}

func (l *collectEntries) add(entries []backend.Entry) error {
	for i := range entries {
		if e := &entries[i]; backend.CheckPath(e.Path) != nil || !validType(e.Type) || e.Size < 0 || !l.valid(e) {
			return backend.Errorf(backend.KindInternal, "", "the agent lists %q, which was not asked for", e.Path)
		}
	}
	if l.list = append(l.list, entries...); len(l.list) > maxListed {
		return backend.Errorf(backend.KindCapacity, "", "there are more than %d files", maxListed)
	}
	return nil
}

func validType(t backend.EntryType) bool {
	return t == backend.EntryFile || t == backend.EntryDir || t == backend.EntryOther
}

// Walk is backend.Backend.Walk.
func (c *Client) Walk(ctx context.Context, req backend.WalkRequest) (backend.WalkResult, error) {
	const op = "Walk"
	root := req.Root
	if root == "" {
		root = backend.DataDir
	}
	l := &collectEntries{valid: func(e *backend.Entry) bool { return e.Path != root && backend.Within(root, e.Path) }}
	var m agentwire.Listing
	err := c.call(ctx, op, agentwire.OpWalk, &agentwire.Walk{
		Root: root, MaxEntries: req.MaxEntries, MaxDepth: req.MaxDepth, Digests: req.Digests,
		MaxDigestBytes: req.MaxDigestBytes, Exclude: req.Exclude,
	}, &m, l.item)
	if err == nil {
		err = convert(ctx, op, l.add(m.Entries))
	}
	if err != nil {
		return backend.WalkResult{}, err
	}
	return backend.WalkResult{Entries: l.list, Truncated: m.Truncated}, nil
}

// ListDir is backend.Backend.ListDir.
func (c *Client) ListDir(ctx context.Context, dir string) ([]backend.Entry, error) {
	const op = "ListDir"
	l := &collectEntries{valid: func(e *backend.Entry) bool { return path.Dir(e.Path) == dir && e.Path != dir }}
	var m agentwire.Listing
	err := c.call(ctx, op, agentwire.OpList, &agentwire.Path{Path: dir}, &m, l.item)
	if err == nil {
		err = convert(ctx, op, l.add(m.Entries))
	}
	if err != nil {
		return nil, err
	}
	return l.list, nil
}

// Stat is backend.Backend.Stat.
func (c *Client) Stat(ctx context.Context, p string) (backend.Entry, error) {
	return c.one(ctx, "Stat", agentwire.OpStat, &agentwire.Path{Path: p}, p)
}

// one makes a request whose answer is the entry of a path.
func (c *Client) one(ctx context.Context, op string, code agentwire.Op, request agentwire.Message, p string) (backend.Entry, error) {
	var m agentwire.Listing
	if err := c.call(ctx, op, code, request, &m, nil); err != nil {
		return backend.Entry{}, err
	}
	return entryOf(ctx, op, &m, p)
}

func entryOf(ctx context.Context, op string, m *agentwire.Listing, p string) (backend.Entry, error) {
	l := &collectEntries{valid: func(e *backend.Entry) bool { return e.Path == p }}
	err := l.add(m.Entries)
	if err == nil && len(l.list) != 1 {
		err = backend.Errorf(backend.KindInternal, "", "the agent describes %d files instead of one", len(l.list))
	}
	if err != nil {
		return backend.Entry{}, convert(ctx, op, err)
	}
	return l.list[0], nil
}

// MakeDir is backend.Backend.MakeDir.
func (c *Client) MakeDir(ctx context.Context, p string) error {
	return c.call(ctx, "MakeDir", agentwire.OpMakeDir, &agentwire.Path{Path: p}, &agentwire.Empty{}, nil)
}

// Remove is backend.Backend.Remove. backend.DataDir and backend.TmpDir are emptied.
func (c *Client) Remove(ctx context.Context, p string) error {
	return c.call(ctx, "Remove", agentwire.OpRemove, &agentwire.Path{Path: p}, &agentwire.Empty{}, nil)
}

// WriteFile is backend.Backend.WriteFile: always atomic.
func (c *Client) WriteFile(ctx context.Context, p string, opts backend.WriteOptions, r io.Reader) (backend.Entry, error) {
	const op = "WriteFile"
	m := &agentwire.Write{Path: p, Mode: opts.Mode, MaxBytes: opts.MaxBytes, Exclusive: opts.Exclusive}
	var head bytes.Buffer
	_, err := io.CopyN(&head, r, inline+1)
	if err != nil && !errors.Is(err, io.EOF) || err == nil && ctx.Err() != nil {
		return backend.Entry{}, readError(ctx, op, err)
	}
	if err != nil { // all of it
		m.Inline, m.Data = true, head.Bytes()
		return c.one(ctx, op, agentwire.OpWrite, m, p)
	}
	st, err := c.open(ctx, agentwire.OpWrite, m)
	if err != nil {
		return backend.Entry{}, convert(ctx, op, err)
	}
	readErr, sendErr := sendContent(ctx, st, agentwire.ChanContent, io.MultiReader(&head, r))
	if sendErr == nil {
		sendErr = st.SendMessage(ctx, agentwire.ChanContent, &agentwire.ContentEnd{Failed: readErr != nil})
	}
	if sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) { // else it was answered already
		st.Leave()
		return backend.Entry{}, convert(ctx, op, sendErr)
	}
	var l agentwire.Listing
	err = await(ctx, st, &l, nil)
	if readErr != nil {
		return backend.Entry{}, readError(ctx, op, readErr)
	}
	if err != nil {
		return backend.Entry{}, convert(ctx, op, err)
	}
	return entryOf(ctx, op, &l, p)
}

// readError is about content that the caller could not provide.
func readError(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return backend.Errorf(backend.KindInvalidRequest, op, "read the content: %w", err)
}

// sendContent sends what r yields, to its end.
func sendContent(ctx context.Context, st *agentwire.Stream, ch agentwire.Channel, r io.Reader) (readErr, sendErr error) {
	buf := make([]byte, agentwire.MaxData)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := st.Send(ctx, ch, buf[:n]); err != nil {
				return nil, err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return err, nil
		}
	}
}

// ReadFile is backend.Backend.ReadFile. ctx also bounds the reading.
func (c *Client) ReadFile(ctx context.Context, p string) (io.ReadCloser, backend.Entry, error) {
	const op = "ReadFile"
	fail := func(err error) (io.ReadCloser, backend.Entry, error) {
		return nil, backend.Entry{}, convert(ctx, op, err)
	}
	st, err := c.open(ctx, agentwire.OpRead, &agentwire.Path{Path: p})
	if err != nil {
		return fail(err)
	}
	var m agentwire.Content
	it, err := st.Recv(ctx)
	switch {
	case errors.Is(err, io.EOF):
		if err = st.Answer(&m); err == nil && (!m.Inline || int64(len(m.Data)) != m.Entry.Size) {
			err = backend.Errorf(backend.KindInternal, "", "the agent sent no content")
		}
	case err == nil && it.Channel == agentwire.ChanStarted && it.Message:
		err = agentwire.Decode(it.Data, &m)
	case err == nil:
		err = errUnexpected(it)
	}
	if err == nil && (m.Entry.Path != p || m.Entry.Type != backend.EntryFile || m.Entry.Size < 0) {
		err = backend.Errorf(backend.KindInternal, "", "the agent describes another file")
	}
	if err != nil {
		st.Leave()
		return fail(err)
	}
	if m.Inline {
		return io.NopCloser(bytes.NewReader(m.Data)), m.Entry, nil
	}
	return &fileReader{ctx: ctx, st: st, left: m.Entry.Size}, m.Entry, nil
}

// fileReader is a file that is being streamed.
type fileReader struct {
	ctx  context.Context
	st   *agentwire.Stream
	rest []byte
	left int64
	err  error
}

func (r *fileReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		it, err := r.st.Recv(r.ctx)
		switch {
		case errors.Is(err, io.EOF):
			if err = r.st.Answer(&agentwire.Content{}); err == nil && r.left > 0 {
				err = fmt.Errorf("%d bytes are missing", r.left)
			}
			if err == nil {
				r.err = io.EOF
				continue
			}
			r.err = convert(r.ctx, "ReadFile", err)
		case err != nil:
			r.err = convert(r.ctx, "ReadFile", err)
		case it.Channel != agentwire.ChanContent || it.Message || int64(len(it.Data)) > r.left:
			r.err = convert(r.ctx, "ReadFile", errUnexpected(it))
		default:
			r.rest = it.Data
			r.left -= int64(len(it.Data))
		}
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *fileReader) Close() error {
	r.st.Leave()
	if r.err == nil {
		r.err = errors.New("read of a closed file")
	}
	r.rest = nil
	return nil
}
