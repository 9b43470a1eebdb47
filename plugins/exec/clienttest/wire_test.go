package clienttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

type obj = map[string]any

// ref is a file in a reply, and as an input in a request.
type ref struct {
	ID               string  `json:"id"`
	Name             string  `json:"name"`
	StorageSessionID string  `json:"storage_session_id,omitempty"`
	SessionID        string  `json:"session_id,omitempty"`
	Size             int64   `json:"size,omitempty"`
	ContentType      string  `json:"contentType,omitempty"`
	Kind             string  `json:"kind,omitempty"`
	ResourceID       string  `json:"resource_id,omitempty"`
	Version          *int64  `json:"version,omitempty"`
	Inherited        bool    `json:"inherited,omitempty"`
	ModifiedFrom     *origin `json:"modified_from,omitempty"`
}

type origin struct {
	ID               string `json:"id"`
	StorageSessionID string `json:"storage_session_id"`
}

// outcome is a reply to a run.
type outcome struct {
	SessionID        string   `json:"session_id"`
	Stdout           string   `json:"stdout"`
	Stderr           string   `json:"stderr"`
	Files            []ref    `json:"files"`
	Code             *int     `json:"code"`
	Status           *string  `json:"status"`
	Message          *string  `json:"message"`
	DeletedFiles     []string `json:"deleted_files"`
	ArtifactDelivery *struct {
		Code, Status                 string
		Attempted, Delivered, Failed int
	} `json:"artifact_delivery"`
}

// names of the files of a reply, inherited ones in parentheses, in order.
func (o outcome) names() string {
	var out []string
	for _, f := range o.Files {
		if f.Inherited {
			out = append(out, "("+f.Name+")")
		} else {
			out = append(out, f.Name)
		}
	}
	return strings.Join(out, " ")
}

func (o outcome) file(t *testing.T, name string) ref {
	t.Helper()
	k := slices.IndexFunc(o.Files, func(f ref) bool { return f.Name == name })
	if k < 0 {
		t.Fatalf("no file %q in %+v", name, o.Files)
	}
	return o.Files[k]
}

// stored is a reply to an upload.
type stored struct {
	Message          string `json:"message"`
	SessionID        string `json:"session_id"`
	StorageSessionID string `json:"storage_session_id"`
	Files            []struct {
		Status, FileID, Filename, Error string
	} `json:"files"`
	Succeeded, Failed int
}

// ref is an input ref to a file of an upload, in the newest spelling.
func (s stored) ref(k int, name string) ref {
	return ref{ID: s.Files[k].FileID, Name: name, StorageSessionID: s.StorageSessionID}
}

// response is a whole one.
type response struct {
	status int
	header http.Header
	body   string
}

// send sends a request as it is; headers may replace the key.
func (s server) send(t *testing.T, method, path string, headers map[string]string, body io.Reader) response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, s.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-API-Key", s.key)
	for k, v := range headers {
		if v == "" {
			q.Header.Del(k)
		} else {
			q.Header.Set(k, v)
		}
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{res.StatusCode, res.Header, string(b)}
}

func (s server) get(t *testing.T, path string) response {
	t.Helper()
	return s.send(t, http.MethodGet, path, nil, nil)
}

// post sends v as JSON, or a string as it is.
func (s server) post(t *testing.T, path string, v any) response {
	t.Helper()
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	return s.send(t, http.MethodPost, path, map[string]string{"Content-Type": "application/json"}, strings.NewReader(text))
}

// into decodes a response that must have a status.
func into[T any](t *testing.T, r response, status int) T {
	t.Helper()
	var v T
	if r.status != status {
		t.Fatalf("status %d, want %d: %.300s", r.status, status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &v); err != nil {
		t.Fatalf("%v: %.300s", err, r.body)
	}
	return v
}

// run runs a program that must be let in; more is added to the body.
func (s server) run(t *testing.T, lang, code string, more ...obj) outcome {
	t.Helper()
	body := obj{"lang": lang, "code": code}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return into[outcome](t, s.post(t, "/v1/exec", body), 200)
}

// download fetches a file that must be there.
func (s server) download(t *testing.T, f ref) string {
	t.Helper()
	r := s.get(t, "/v1/download/"+f.StorageSessionID+"/"+f.ID)
	if r.status != 200 {
		t.Fatalf("download of %q: %d %.300s", f.Name, r.status, r.body)
	}
	return r.body
}

// part is one part of a form: a field, or a file when it has a name.
type part struct{ name, filename, contentType, value string }

func fileNamed(name, value string) part { return part{name: "file", filename: name, value: value} }

// form writes parts byte for byte as the form-data package of npm does, which the host
// application uploads with (wire reference §9.4): raw UTF-8 in names, %22 for a quote,
// and a type guessed from the extension.
func form(parts ...part) (body, contentType string) {
	const boundary = "--------------------------0123456789abcdef01234567"
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--" + boundary + "\r\nContent-Disposition: form-data; name=\"" + p.name + "\"")
		if p.filename != "" {
			b.WriteString("; filename=\"" + strings.ReplaceAll(p.filename, `"`, "%22") + "\"\r\nContent-Type: ")
			if p.contentType == "" {
				p.contentType = "application/octet-stream"
			}
			b.WriteString(p.contentType)
		}
		b.WriteString("\r\n\r\n" + p.value + "\r\n")
	}
	b.WriteString("--" + boundary + "--\r\n")
	return b.String(), "multipart/form-data; boundary=" + boundary
}

// sendForm uploads with a Content-Length.
func (s server) sendForm(t *testing.T, path string, parts ...part) response {
	t.Helper()
	body, contentType := form(parts...)
	return s.send(t, http.MethodPost, path, map[string]string{"Content-Type": contentType}, strings.NewReader(body))
}

func (s server) upload(t *testing.T, parts ...part) stored {
	t.Helper()
	return into[stored](t, s.sendForm(t, "/v1/upload", parts...), 200)
}

// hangUp begins a run and hangs up as soon as it announces itself by the event of its
// first output.
func (s server) hangUp(t *testing.T, body obj) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/exec", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-API-Key", s.key)
	q.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	seen := make([]byte, 0, 4096)
	piece := make([]byte, 512)
	for !bytes.Contains(seen, []byte("event: stdout")) {
		n, err := res.Body.Read(piece)
		seen = append(seen, piece[:n]...)
		if err != nil {
			t.Fatalf("%v after %q", err, seen)
		}
	}
}

// wantError checks both shapes of an error body.
func wantError(t *testing.T, r response, status int, word string) {
	t.Helper()
	e := into[obj](t, r, status)
	if e["message"] == "" || e["status"] != float64(status) || word != "" && e["error"] != word && e["code"] != word {
		t.Errorf("%d %s, want %q", r.status, r.body, word)
	}
}

// quoted writes a Python string.
func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Sprintf("%q", s)
	}
	return string(b)
}
