package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/caisson-run/caisson/sdk/client/wire"
)

// Stored is a file that was uploaded.
type Stored struct {
	// SessionID holds it; ID is its own, Name its path relative to /mnt/data.
	SessionID, ID, Name string
	// Size is in bytes.
	Size int64
}

// Put stores one file as name in a session, a new one where session is empty. name may
// have directories.
func (c *Client) Put(ctx context.Context, session, name string, content io.Reader) (Stored, error) {
	body, contentType, err := form(session, name, content)
	if err != nil {
		return Stored{}, fmt.Errorf("put %q: %w", name, err)
	}
	var out wire.UploadReply
	if err := c.call(&out)(c.api.UploadFileWithBody(ctx, contentType, body)); err != nil {
		return Stored{}, fmt.Errorf("put %q: %w", name, err)
	}
	if len(out.Files) != 1 || out.Files[0].FileID == "" {
		return Stored{}, fmt.Errorf("put %q: the server does not say where the file is", name)
	}
	f := out.Files[0]
	return Stored{SessionID: out.StorageSessionID, ID: f.FileID, Name: f.Filename, Size: f.Size}, nil
}

// form is the body of an upload, whose content is read as it is sent.
func form(session, name string, content io.Reader) (io.Reader, string, error) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, "", errors.New("the name is empty or has a control character")
	}
	var head, tail bytes.Buffer
	w := multipart.NewWriter(&head)
	if session != "" {
		if err := w.WriteField("session_id", session); err != nil {
			return nil, "", err
		}
	}
	h := make(textproto.MIMEHeader)
	h.Set("Content-Disposition", `form-data; name="file"; filename="`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)+`"`)
	h.Set("Content-Type", "application/octet-stream")
	if _, err := w.CreatePart(h); err != nil {
		return nil, "", err
	}
	n := head.Len()
	if err := w.Close(); err != nil { // writes the end behind the beginning
		return nil, "", err
	}
	tail.Write(head.Bytes()[n:])
	head.Truncate(n)
	return io.MultiReader(&head, content, &tail), w.FormDataContentType(), nil
}

// List lists the files of a session; none for one that does not exist.
func (c *Client) List(ctx context.Context, session string) ([]Listed, error) {
	var out []Listed
	if err := c.call(&out)(c.api.ListFiles(ctx, session, &wire.ListFilesParams{Detail: "normalized"})); err != nil {
		return nil, fmt.Errorf("list the files of session %q: %w", session, err)
	}
	return out, nil
}

// Content is a file that is being read. The caller closes it.
type Content struct {
	io.ReadCloser
	// Type is the content type. Size is that of the whole file in bytes, -1 where the
	// server does not say. Offset is where in it the content begins.
	Type         string
	Size, Offset int64
}

// Open reads a file by its id or path, from offset on and at most length bytes; a
// length of 0 is all there is. Beyond the end is an *Error with status 416.
func (c *Client) Open(ctx context.Context, session, file string, offset, length int64) (*Content, error) {
	params := &wire.DownloadFileParams{}
	switch {
	case offset < 0 || length < 0:
		return nil, errors.New("open: offset and length must not be negative")
	case length > 0:
		params.Range = fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)
	case offset > 0:
		params.Range = fmt.Sprintf("bytes=%d-", offset)
	}
	res, err := c.api.DownloadFile(ctx, session, file, params)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", file, err)
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusPartialContent {
		defer res.Body.Close()
		return nil, fmt.Errorf("open %q: %w", file, failure(res))
	}
	out := &Content{ReadCloser: res.Body, Type: res.Header.Get("Content-Type"), Size: res.ContentLength}
	if res.StatusCode == http.StatusPartialContent {
		out.Size, out.Offset = -1, offset
		_, total, _ := strings.Cut(res.Header.Get("Content-Range"), "/")
		if n, err := strconv.ParseInt(total, 10, 64); err == nil && n >= 0 {
			out.Size = n
		}
	}
	return out, nil
}

// Delete deletes a file.
func (c *Client) Delete(ctx context.Context, session, file string) error {
	if err := c.call(nil)(c.api.DeleteFile(ctx, session, file, &wire.DeleteFileParams{})); err != nil {
		return fmt.Errorf("delete %q: %w", file, err)
	}
	return nil
}
