package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/plugins/exec/internal/formdata"
	"github.com/caisson-run/caisson/plugins/exec/internal/response"
)

// formOverhead is what a form may have around its files.
const formOverhead = 1 << 20

// uploadReply satisfies every client generation (docs/wire.md).
type uploadReply struct {
	Message          string     `json:"message"`
	Error            string     `json:"error,omitempty"`
	Status           int        `json:"status,omitempty"`
	Code             string     `json:"code,omitempty"`
	SessionID        string     `json:"session_id,omitempty"`
	StorageSessionID string     `json:"storage_session_id,omitempty"`
	Files            []uploaded `json:"files"`
}

// batchReply is what a batch has more.
type batchReply struct {
	uploadReply
	Succeeded         int  `json:"succeeded"`
	Failed            int  `json:"failed"`
	FilesLimitReached bool `json:"filesLimitReached,omitempty"`
	MaxFiles          int  `json:"maxFiles,omitempty"`
}

// uploadOne answers POST /upload: all files or none.
func (d *door) uploadOne(w http.ResponseWriter, r *http.Request) error {
	return d.upload(w, r, false)
}

// uploadBatch answers POST /upload/batch: each file for itself, in one session.
func (d *door) uploadBatch(w http.ResponseWriter, r *http.Request) error {
	return d.upload(w, r, true)
}

func (d *door) upload(w http.ResponseWriter, r *http.Request, batch bool) error {
	p, ctx := principal(r), r.Context()
	leave, err := d.transfer(ctx, d.transfers.uploads, p.Org, "uploads")
	if err != nil {
		return err
	}
	defer leave()
	limit, tooLarge := d.o.UploadBytes+formOverhead, sizeExceeded
	if batch {
		limit, tooLarge = d.o.BatchBytes+formOverhead, fmt.Sprintf("the batch is larger than %d bytes in all", d.o.BatchBytes)
	}
	body, err := d.guard(w, r, limit, tooLarge, true)
	if err != nil {
		return err
	}
	whole := &replayed{Reader: body}
	if d.host.Peers() == nil {
		whole.forget()
	}
	form, err := formdata.Open(r.Header.Get("Content-Type"), whole)
	if err != nil {
		return &host.HTTPError{Status: http.StatusBadRequest, Code: "invalid_body", Message: "Invalid content type. Must be multipart/form-data.", Cause: err}
	}
	if err := d.standing(ctx, p, host.ActUpload); err != nil {
		return fmt.Errorf("standing: %w", err)
	}
	grant, err := d.quota.Begin(ctx, p.Org)
	if err != nil {
		return err
	}
	u := &upload{
		d: d, request: r, whole: whole, owner: ownerOf(p), payer: string(p.Payer), grant: grant, find: d.finder(ownerOf(p)), batch: batch, taken: make(map[string]bool), listed: listedBytes,
	}
	defer u.close(ctx)
	err = u.read(ctx, form)
	if away, ok := errors.AsType[*awayError](err); ok {
		return d.pass(w, r, away.node, io.MultiReader(bytes.NewReader(whole.kept), body))
	}
	if err == nil {
		// What follows the form is nobody's, but the upload is not whole before it.
		_, err = io.Copy(io.Discard, body)
		err = formError(err)
	}
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	body.done()
	if u.seen == 0 {
		return refuse(http.StatusBadRequest, "invalid_request", "No files provided")
	}
	annotate(ctx, "files", u.total.Files, "stored", u.total.Bytes)
	reply := batchReply{uploadReply: uploadReply{Message: success, Files: u.files}, Succeeded: int(u.total.Files), Failed: u.failed}
	if reply.Failed > 0 {
		reply.Message = "partial_success"
	}
	if u.full {
		reply.FilesLimitReached, reply.MaxFiles = true, d.o.UploadFiles
	}
	if reply.Succeeded == 0 {
		reply.Message, reply.Error = "error", "no file could be stored"
		reply.Status, reply.Code = http.StatusBadRequest, codeInvalidFile
		response.JSON(w, http.StatusBadRequest, reply)
		return nil
	}
	if u.keep(); u.fresh {
		d.telemetry.SessionCreated(string(session.OriginUpload))
	}
	annotate(ctx, "session", u.at.ID)
	reply.SessionID, reply.StorageSessionID = u.at.ID, u.at.ID
	if batch {
		response.JSON(w, http.StatusOK, reply)
	} else {
		response.JSON(w, http.StatusOK, reply.uploadReply)
	}
	return nil
}
