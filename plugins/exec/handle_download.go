package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
	"github.com/caisson-run/caisson/plugins/exec/internal/response"
	"github.com/caisson-run/caisson/sdk/backend"
)

// downloadNothing answers a download that names a session and no file.
func (d *door) downloadNothing(http.ResponseWriter, *http.Request) error {
	return refuse(http.StatusBadRequest, "invalid_request", "a download is addressed by a session id and a file id")
}

// fileError makes every way in which a file is not there look alike: a session
// of somebody else, one that is gone, a file that never was.
func fileError(err error) error {
	if gone(err) || backend.IsNotFound(err) || errors.Is(err, errChanged) {
		return &notFoundError{err}
	}
	return err
}

type notFoundError struct{ err error }

func (e *notFoundError) Error() string { return e.err.Error() }
func (e *notFoundError) Unwrap() []error {
	return []error{refuse(http.StatusNotFound, "not_found", fileNotFound), e.err}
}

// locate resolves the session and file that a request's path names. The session
// is open then: reading a file may wake it.
func (d *door) locate(ctx context.Context, f *finder, r *http.Request) (*finding, backend.Entry, error) {
	x, err := f.lookup(ctx, r.PathValue("sid"))
	if err == nil && mismatch(r.URL.Query(), x.Sandbox.Metadata) {
		err = session.ErrNotFound
	}
	var e backend.Entry
	if err == nil {
		e, err = f.file(ctx, x, r.PathValue("fid"))
		x.index, x.whole = nil, nil // no other file is asked for, and the answer may take long
	}
	return x, e, fileError(err)
}

// download answers GET and HEAD of /download/{sid}/{fid}.
func (d *door) download(w http.ResponseWriter, r *http.Request) error {
	if r.PathValue("fid") == "" {
		return d.downloadNothing(w, r)
	}
	ctx, p := r.Context(), principal(r)
	leave, err := d.transfer(ctx, d.transfers.downloads, p.Org, "downloads")
	if err != nil {
		return err
	}
	defer leave()
	f := d.finder(ownerOf(p))
	defer f.release()
	x, e, err := d.locate(ctx, f, r)
	if err != nil {
		return err
	}
	// Opened once before the status goes out: what cannot be read is a 404.
	first, err := openVersion(ctx, x.Session, e)
	if err != nil {
		return fileError(err)
	}
	name, _ := names.Relative(e.Path)
	defer first.Close()
	content := &seeker{ctx: ctx, size: e.Size, body: first, skips: d.transfers.skips, tenant: p.Org}
	h := w.Header()
	h.Set("Content-Type", contentType(name))
	h.Set("Content-Disposition", disposition(path.Base(name)))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "private")
	h.Set("ETag", etag(e))
	oneRange(r.Header, e.Size)
	// Ranges, conditions and HEAD are the library's. The name is empty: it is
	// for guessing the type, which is settled.
	http.ServeContent(&ranged{ResponseWriter: w, size: e.Size}, r, "", e.Modified, content)
	return content.failed
}

// ranged answers a range that the file does not have in the shape of every other
// refusal, in the place of the library's line of text.
type ranged struct {
	http.ResponseWriter
	size    int64 // of the file
	refused bool
}

func (w *ranged) WriteHeader(status int) {
	if status != http.StatusRequestedRangeNotSatisfiable {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.refused = true
	w.Header().Del("Content-Disposition") // it is no download any more
	w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", w.size))
	response.Refuse(w.ResponseWriter, refuse(status, "range_not_satisfiable", "the file has no such range"))
}

func (w *ranged) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the server's own writer.
func (w *ranged) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func etag(e backend.Entry) string { return fmt.Sprintf("%q", version(e)) }

// seeker makes a file that can only be read from its start look like one that can be read
// from anywhere: ServeContent seeks before it reads one part of it.
type seeker struct {
	ctx    context.Context
	size   int64
	body   io.Reader
	skips  *queue.Queue
	tenant string
	at     int64 // of body
	want   int64 // of the next read
	// failed is why the answer breaks off: its length was promised already.
	failed error
}

func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.want
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	s.want = offset
	return offset, nil
}

func (s *seeker) Read(p []byte) (int, error) {
	n, err := s.read(p)
	s.at += int64(n)
	s.want = s.at
	if err != nil && err != io.EOF {
		s.failed = err
	}
	return n, err
}

func (s *seeker) read(p []byte) (int, error) {
	switch {
	case s.want < s.at:
		return 0, errors.New("seek behind what was read")
	case s.want > s.at:
		if err := s.skip(); err != nil {
			return 0, err
		}
	}
	return s.body.Read(p)
}

// skip reads up to where the part begins, when it is its tenant's turn.
func (s *seeker) skip() error {
	place, err := s.skips.Join(s.tenant)
	if err != nil {
		return err
	}
	defer place.Leave()
	if err := place.Wait(s.ctx); err != nil {
		return err
	}
	n, err := io.CopyN(io.Discard, s.body, s.want-s.at)
	s.at += n
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// disposition names a download: in ASCII for old clients and exactly for the
// others (RFC 6266, RFC 5987).
func disposition(name string) string {
	ascii := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' {
			return '_'
		}
		return r
	}, name)
	// QueryEscape leaves only unreserved characters; + is a space in queries alone.
	return `attachment; filename="` + ascii + `"; filename*=UTF-8''` + strings.ReplaceAll(url.QueryEscape(strings.ToValidUTF8(name, "_")), "+", "%20")
}
