// Package formdata reads multipart/form-data part by part, with file names as
// they were sent. Nothing is kept in memory or on disk: a part's body is read
// from the request while the caller reads it.
//
// mime/multipart does the framing. What it does not do is keep sub-directories:
// Part.FileName returns a base name, where "skills/x/SKILL.md" has to survive
// and "../x" has to be seen.
package formdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strings"
)

// ErrNotFormData: the content type is not multipart/form-data with a boundary.
var ErrNotFormData = errors.New("not multipart/form-data with a boundary")

// FormatError: the body is not what its content type says. Errors of reading it
// are passed through instead.
type FormatError struct{ Reason string }

func (e *FormatError) Error() string { return e.Reason }

// Part is one part. Body is valid until the next call of Next.
type Part struct {
	// Name is the field's name.
	Name string
	// FileName is the name exactly as sent; File says that there was one.
	FileName string
	File     bool
	Body     io.Reader
}

// Reader reads parts in order. It is not safe for concurrent use.
type Reader struct {
	parts   *multipart.Reader
	body    *watched
	headers *headers
}

// Open returns a Reader of body, or ErrNotFormData.
func Open(contentType string, body io.Reader) (*Reader, error) {
	t, params, err := mime.ParseMediaType(contentType)
	// RFC 2046 §5.1.1 bounds a boundary to 70 characters.
	if err != nil || t != "multipart/form-data" || params["boundary"] == "" || len(params["boundary"]) > 70 {
		return nil, ErrNotFormData
	}
	w := &watched{r: body, last: []byte("--" + params["boundary"] + "--")}
	h := &headers{r: w, boundary: []byte("--" + params["boundary"])}
	return &Reader{parts: multipart.NewReader(h, params["boundary"]), body: w, headers: h}, nil
}

// Next skips what is left of the part before and returns the next one, or io.EOF
// after the last.
func (r *Reader) Next() (*Part, error) {
	p, err := r.parts.NextRawPart()
	switch {
	case err == io.EOF && r.body.seen: // not errors.Is: a body that breaks off wraps it
		return nil, io.EOF
	case r.body.err != nil:
		return nil, r.body.err
	case r.headers.err != nil && err != nil:
		return nil, r.headers.err
	case err != nil:
		return nil, &FormatError{Reason: "the multipart body is malformed or breaks off"}
	}
	part := &Part{Body: content{p, r}}
	part.Name, part.FileName, part.File, err = disposition(p.Header.Get("Content-Disposition"))
	r.headers.restore(&part.Name, &part.FileName)
	return part, err
}

// Field returns the value of a part that is not a file, up to limit bytes.
func (p *Part) Field(limit int64) (string, error) {
	b, err := io.ReadAll(io.LimitReader(p.Body, limit+1))
	if err != nil {
		return "", err
	}
	if int64(len(b)) > limit {
		return "", &FormatError{Reason: fmt.Sprintf("the field %.32q is longer than %d bytes", p.Name, limit)}
	}
	return string(b), nil
}

// disposition parses a Content-Disposition header. RFC 7578 §4.2: raw UTF-8 is
// what clients send, and filename* is accepted though they should not.
func disposition(v string) (name, filename string, file bool, err error) {
	t, params, err := mime.ParseMediaType(v)
	if err != nil || t != "form-data" {
		return "", "", false, &FormatError{Reason: "a part has no readable Content-Disposition"}
	}
	filename, file = params["filename"]
	// They may be kept for long, and the header that they are parts of need not be.
	return strings.Clone(params["name"]), strings.Clone(filename), file, nil
}

// watched remembers why the body could not be read: the framing reports it in
// words of its own.
type watched struct {
	r   io.Reader
	err error
	// seen says that last, the delimiter after the last part, came by. The
	// framing reports a body that ends inside a part's header like a whole one.
	last []byte
	seen bool
	tail []byte // the end of what was read, shorter than last
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if !w.seen {
		w.look(p[:n])
	}
	if err != nil && err != io.EOF {
		w.err = err
	}
	return n, err
}

func (w *watched) look(p []byte) {
	keep := len(w.last) - 1
	w.tail = append(w.tail, p[:min(len(p), keep)]...)
	w.seen = bytes.Contains(w.tail, w.last) || bytes.Contains(p, w.last)
	if len(p) > keep {
		w.tail = append(w.tail[:0], p[len(p)-keep:]...)
	} else {
		w.tail = w.tail[max(0, len(w.tail)-keep):]
	}
}

type content struct {
	p *multipart.Part
	r *Reader
}

func (b content) Read(p []byte) (int, error) {
	n, err := b.p.Read(p)
	switch {
	case err == nil || err == io.EOF:
		return n, err
	case b.r.body.err != nil:
		return n, b.r.body.err
	case b.r.headers.err != nil:
		return n, b.r.headers.err
	default:
		return n, &FormatError{Reason: "the multipart body is malformed or breaks off"}
	}
}
