package exec

import (
	"net/http"
	"strings"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/plugins/exec/internal/quota"
	"github.com/caisson-run/caisson/plugins/exec/internal/response"
	"github.com/caisson-run/caisson/sdk/backend"
)

// listed is one file of a listing: everything that any client generation reads,
// whatever detail it asked for (docs/wire.md).
type listed struct {
	Name             string   `json:"name"`
	ID               string   `json:"id"`
	SessionID        string   `json:"session_id"`
	StorageSessionID string   `json:"storage_session_id"`
	Size             int64    `json:"size"`
	ContentType      string   `json:"contentType"`
	ETag             string   `json:"etag"`
	LastModified     string   `json:"lastModified"`
	ReadOnly         bool     `json:"read_only,omitempty"`
	Metadata         metadata `json:"metadata"`
}

type metadata struct {
	OriginalFilename string `json:"original-filename"`
	ContentType      string `json:"content-type"`
}

// objectReply is one file by itself, with the members that are called otherwise there.
type objectReply struct {
	listed
	OriginalFilename string `json:"originalFilename"`
	ReadOnly         bool   `json:"readOnly"`
}

// javaScriptTime is what Date of every client parses.
const javaScriptTime = "2006-01-02T15:04:05.000Z"

// active is when a session was last used. Clients take it for when its files
// stop being fresh, so it is never the time of creation alone.
func (i *Interpreter) active(sb backend.Sandbox) string {
	t := sb.LastActive
	if t.IsZero() {
		t = i.o.Now()
	}
	return t.UTC().Format(javaScriptTime)
}

// list answers GET /files/{sid} with a bare array, empty for a session that does
// not exist. It never wakes a session.
func (d *door) list(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	f := d.finder(ownerOf(principal(r)))
	defer f.release()
	out := []listed{}
	x, err := f.lookup(ctx, r.PathValue("sid"))
	if err == nil && mismatch(r.URL.Query(), x.Sandbox.Metadata) {
		err = session.ErrNotFound
	}
	if err == nil && x.Sandbox.State == backend.StatePaused {
		return session.ErrPaused
	}
	var files []backend.Entry
	if err == nil {
		files, err = f.contents(ctx, x, leftOut(x.Sandbox.Metadata))
	}
	if err != nil && !gone(err) {
		return err
	}
	leave, err := d.looks.answer(f.owner.Tenant, len(files))
	if err != nil {
		return err
	}
	defer leave()
	normalized := r.URL.Query().Get("detail") == "normalized"
	for _, e := range files {
		name, _ := names.Relative(e.Path)
		if _, err := names.Announce(name); err != nil {
			continue // like the run that made it
		}
		l := d.listed(x, name, e)
		if normalized {
			l.Name = l.Metadata.OriginalFilename
		}
		out = append(out, l)
	}
	response.JSON(w, http.StatusOK, out)
	return nil
}

func (d *door) listed(x *finding, name string, e backend.Entry) listed {
	id := d.fileID(x.ID, name, e)
	return listed{
		Name: x.ID + "/" + id, ID: id, SessionID: x.ID, StorageSessionID: x.ID,
		Size: e.Size, ContentType: contentType(name), ETag: etag(e),
		LastModified: d.active(x.Sandbox), ReadOnly: readOnly(x.Sandbox.Metadata),
		Metadata: metadata{OriginalFilename: strings.ToValidUTF8(name, "\ufffd"), ContentType: contentType(name)},
	}
}

// object answers GET /sessions/{sid}/objects/{fid}: a client asks it before a
// turn whether the file it remembers is still there.
func (d *door) object(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	f := d.finder(ownerOf(principal(r)))
	defer f.release()
	x, err := f.lookup(ctx, r.PathValue("sid"))
	if err == nil && x.Sandbox.State == backend.StatePaused {
		return session.ErrPaused // looking wakes nothing
	}
	if err == nil {
		x.opened = true
	}
	x, e, err := d.locate(ctx, f, r)
	if err != nil {
		return err
	}
	name, _ := names.Relative(e.Path)
	l := d.listed(x, name, e)
	response.JSON(w, http.StatusOK, objectReply{l, l.Metadata.OriginalFilename, l.ReadOnly})
	return nil
}

// remove answers DELETE in both spellings: 204 to one request, and 404 from then on.
func (d *door) remove(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	p := principal(r)
	f := d.finder(ownerOf(p))
	defer f.release()
	x, e, err := d.locate(ctx, f, r)
	if err != nil {
		return err
	}
	// Backends remove what is gone as well, and a file may be taken off the quota once.
	giveBack, err := d.removals.take(ctx, x.ID+e.Path)
	if err != nil {
		return err
	}
	defer giveBack()
	if e, err = x.Backend.Stat(ctx, x.Sandbox.Ref, e.Path); err == nil && e.Type != backend.EntryFile {
		err = session.ErrNotFound
	}
	if err == nil {
		err = x.Backend.Remove(ctx, x.Sandbox.Ref, e.Path)
	}
	if err != nil {
		return fileError(err)
	}
	d.quota.Remove(x.Sandbox.Metadata.Tenant, x.ID, quota.Usage{Files: 1, Bytes: e.Size})
	w.WriteHeader(http.StatusNoContent)
	return nil
}
