package exec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/formdata"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/plugins/exec/internal/quota"
	"github.com/caisson-run/caisson/plugins/exec/internal/runes"
	"github.com/caisson-run/caisson/sdk/backend"
)

// upload is one upload request: fields, then files, all into one session. Until
// keep, closing it leaves nothing behind.
type upload struct {
	d       *door
	request *http.Request
	whole   *replayed
	owner   session.Owner
	payer   string
	grant   *quota.Grant
	find    *finder
	// batch reports each file's fate by itself; otherwise one failure is the
	// request's.
	batch bool

	attrs attributes
	at    *finding
	fresh bool
	turn  func()
	// made are paths in a session of before that were not there.
	made  []string
	taken map[string]bool
	files []uploaded
	// seen and failed count the files of a batch that came and that failed, and listed are
	// the bytes that the list of those may still have.
	seen, failed, listed int

	// total is what was stored, and replaced what was there before in its place.
	total, replaced quota.Usage

	kept bool
	full bool
}

// uploaded is one file of the request and what became of it.
type uploaded struct {
	Status   string `json:"status"`
	FileID   string `json:"fileId,omitempty"`
	Filename string `json:"filename"`
	Size     int64  `json:"size"`
	Error    string `json:"error,omitempty"`
}

const (
	fieldBytes = 4096
	success    = "success"
	// listedBytes bounds the list of the files of a batch that failed. What is stored is
	// bounded by Options.UploadFiles, and by the length of a name that is good.
	listedBytes = 512 << 10
	// partsFactor times Options.UploadFiles bounds the parts of a form, files and fields.
	partsFactor = 10
)

// read takes the form apart, storing each file as it comes.
func (u *upload) read(ctx context.Context, form *formdata.Reader) error {
	for n := 0; ; n++ {
		part, err := form.Next()
		if err == io.EOF {
			return nil
		}
		if most := partsFactor * u.d.o.UploadFiles; n >= most {
			return refuse(http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the form has more than %d parts", most))
		}
		if err != nil {
			return formError(err)
		}
		if !part.File && part.Name != "file" && part.Name != "files" {
			err = u.field(part)
		} else {
			err = u.file(ctx, part)
		}
		if err != nil {
			return err
		}
	}
}

func formError(err error) error {
	if fe, ok := errors.AsType[*formdata.FormatError](err); ok {
		return refuse(http.StatusBadRequest, "invalid_body", fe.Reason)
	}
	if _, ok := errors.AsType[*brokenBody](err); ok {
		return &host.HTTPError{Status: http.StatusBadRequest, Code: "invalid_body", Message: "the upload broke off", Cause: err}
	}
	return err
}

func (u *upload) field(part *formdata.Part) error {
	if !knownField(part.Name) {
		return nil
	}
	if u.seen > 0 {
		// It would not apply to what is stored already, and must not seem to.
		return refuse(http.StatusBadRequest, "invalid_request", part.Name+" must come before the files")
	}
	value, err := part.Field(fieldBytes)
	if err != nil {
		return formError(err)
	}
	if err := u.attrs.set(part.Name, value); err != nil {
		return err
	}
	return nil
}

// file stores one file. An error ends the request; what is only this file's
// fault is noted in a batch.
func (u *upload) file(ctx context.Context, part *formdata.Part) error {
	u.seen++
	name, err := u.name(part)
	var e backend.Entry
	if err == nil {
		e, err = u.store(ctx, name, part.Body)
	}
	if err == nil {
		u.total.Files++
		u.total.Bytes += e.Size
		f := uploaded{Status: success, FileID: u.d.fileID(u.at.ID, name, e), Filename: name, Size: e.Size}
		if u.batch {
			f.Filename = part.FileName // the client finds its files by it
		}
		u.files = append(u.files, f)
		return nil
	}
	fault, ok := errors.AsType[*fileFault](err)
	switch {
	case !ok:
		return err
	case !u.batch:
		return fault.refusal
	}
	u.fail(part.FileName, fault.refusal.Message)
	return nil
}

// fail notes a file of a batch that failed, as long as there is room for it in the reply. A
// name that could not be a file's is cut.
func (u *upload) fail(name, why string) {
	u.failed++
	if len(name) > names.MaxBytes {
		name = runes.Cut(name, names.MaxBytes) + "…"
	}
	const members = 64 // of an entry, about
	if u.listed -= len(name) + len(why) + members; u.listed >= 0 {
		u.files = append(u.files, uploaded{Status: "error", Filename: name, Error: why})
	} else {
		u.listed = 0 // those behind it are left out too
	}
}

// fileFault is an error that concerns one file and not its request.
type fileFault struct{ refusal *host.HTTPError }

func (e *fileFault) Error() string { return e.refusal.Error() }
func (e *fileFault) Unwrap() error { return e.refusal }

func fault(status int, message string) *fileFault {
	return &fileFault{refuse(status, codeInvalidFile, message)}
}

func (u *upload) name(part *formdata.Part) (string, error) {
	if u.seen > u.d.o.UploadFiles {
		u.full = true
		return "", fault(http.StatusBadRequest, fmt.Sprintf("more than %d files in one request", u.d.o.UploadFiles))
	}
	if !part.File {
		return "", fault(http.StatusBadRequest, "a file part has no file name")
	}
	name, err := names.Upload(part.FileName)
	if err != nil {
		return "", fault(http.StatusBadRequest, "the file name "+err.Error())
	}
	if u.taken[name] {
		return "", fault(http.StatusBadRequest, "two files of the request are named "+names.Show(name))
	}
	u.taken[name] = true
	return name, nil
}

// store writes one file into the session, which is found or made for the first.
func (u *upload) store(ctx context.Context, name string, r io.Reader) (e backend.Entry, err error) {
	if err := u.enter(ctx, name); err != nil {
		return backend.Entry{}, err
	}
	if in := cache(name); len(in) > 0 && !listedWhole(u.at.Sandbox.Metadata) {
		return backend.Entry{}, fault(http.StatusBadRequest,
			"files of this session are not listed below "+in[0]+"; send it by itself and without session_id, or in a batch")
	}
	if err := u.grant.Add(quota.Usage{Files: 1}); err != nil {
		return backend.Entry{}, err
	}
	in := &metered{r: r, left: u.d.o.UploadBytes, grant: u.grant}
	defer func() {
		if err != nil { // the files of a batch that come behind it have its room
			u.grant.Back(quota.Usage{Files: 1, Bytes: in.counted})
		}
	}()
	path := names.Absolute(name)
	var before quota.Usage // that the file takes the place of
	if !u.fresh {
		was, err := u.at.Backend.Stat(ctx, u.at.Sandbox.Ref, path)
		switch {
		case backend.ProvesGone(err):
			return backend.Entry{}, session.ErrNotFound
		case backend.IsNotFound(err):
			u.made = append(u.made, path)
		case err == nil && was.Type == backend.EntryFile:
			before = quota.Usage{Files: 1, Bytes: was.Size}
		}
	}
	opts := backend.WriteOptions{MaxBytes: u.d.o.UploadBytes}
	if u.attrs.readOnly {
		opts.Mode = 0o444
	}
	e, err = u.at.Backend.WriteFile(ctx, u.at.Sandbox.Ref, path, opts, in)
	switch {
	case in.err != nil: // why the content stopped says more than that it did
		return e, in.err
	case err == nil:
		u.replaced.Files += before.Files
		u.replaced.Bytes += before.Bytes
		return e, nil
	case backend.ProvesGone(err):
		return e, session.ErrNotFound
	case backend.Full(err): // a smaller file of a batch may have room
		return e, &fileFault{asRefusal(err)}
	}
	switch backend.KindOf(err) {
	case backend.KindInvalidRequest, backend.KindConflict, backend.KindNotFound:
		u.d.log.Debug("a file could not be stored", "session", u.at.ID, "error", err)
		return e, fault(http.StatusBadRequest, "the file could not be stored under this name")
	}
	return e, fmt.Errorf("store an uploaded file: %w", err)
}

// enter finds the session that the files go to, or makes one for the first of them.
func (u *upload) enter(ctx context.Context, first string) error {
	if u.at != nil {
		return nil
	}
	if u.attrs.session != "" {
		node, err := u.d.host.Peers().Away(u.request, u.attrs.session)
		if err != nil {
			return err
		}
		if node != nil && u.whole.over {
			return refuse(http.StatusRequestEntityTooLarge, "too_large", "session_id must come sooner in the form")
		}
		if node != nil {
			return &awayError{node}
		}
		u.whole.forget()
		return u.join(ctx)
	}
	u.whole.forget()
	sessions := u.d.host.Sessions()
	t, err := sessions.Default(ctx, u.owner)
	if err != nil {
		return fmt.Errorf("find the default sandbox target: %w", err)
	}
	labels := u.attrs.labels()
	if u.batch || len(cache(first)) > 0 {
		labels[labelWhole] = "true"
	}
	s, err := sessions.Create(ctx, u.owner, t, session.CreateOptions{Origin: session.OriginUpload, Labels: labels, Payer: u.payer})
	if err != nil {
		t.Release()
		return err
	}
	u.at, u.fresh = u.find.add(s), true
	return nil
}

// join goes into a session of before. It takes the session's turn: a run at the
// same time would report the files as its own.
func (u *upload) join(ctx context.Context) error {
	if a := u.attrs; a.kind == kindAgent || a.kind == kindSkill || a.readOnly {
		return refuse(http.StatusBadRequest, "invalid_request", "session_id cannot go with kind agent, kind skill or read_only: what is shared has a session of its own")
	}
	x, err := u.find.lookup(ctx, u.attrs.session)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, u.d.o.MaxWait)
	defer cancel()
	turn, err := u.d.host.Sessions().Hold(wait, x.ID)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return rateLimited("the session is busy", defaultRetry, err)
		}
		return err
	}
	u.turn = turn
	if err := x.open(ctx); err != nil {
		return err
	}
	u.at = x
	return nil
}

// keep makes the files stay.
func (u *upload) keep() {
	u.kept = true
	u.d.quota.Remove(u.owner.Tenant, u.at.ID, u.replaced)
	u.grant.Store(u.at.ID, u.total)
	if u.fresh {
		u.d.host.Sessions().MarkUploaded(u.at.ID)
	}
}

// close takes back what was not kept and releases everything.
func (u *upload) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if u.at != nil && !u.kept {
		var err error
		if u.fresh {
			err = u.d.host.Sessions().Discard(ctx, u.at.Session)
		}
		for _, p := range u.made {
			err = errors.Join(err, u.at.Backend.Remove(ctx, u.at.Sandbox.Ref, p))
		}
		if err != nil {
			u.d.log.Warn("an upload that failed is left to the session's clocks", "session", u.at.ID, "error", err)
		}
	}
	if u.turn != nil {
		u.turn()
	}
	u.find.release()
	u.grant.End()
}

// metered counts content against limit and quota before anybody stores it.
type metered struct {
	r     io.Reader
	left  int64
	grant *quota.Grant
	// counted is what the quota has of it.
	counted int64
	err     error
}

func (m *metered) Read(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	n, err := m.r.Read(p)
	if m.left -= int64(n); m.left < 0 {
		m.err = &fileFault{refuse(http.StatusRequestEntityTooLarge, "too_large", sizeExceeded)}
		return 0, m.err
	}
	if err != nil && err != io.EOF {
		m.err = formError(err)
		return 0, m.err
	}
	if n > 0 {
		if exceeded := m.grant.Add(quota.Usage{Bytes: int64(n)}); exceeded != nil {
			m.err = exceeded
			return 0, m.err
		}
		m.counted += int64(n)
	}
	return n, err
}
