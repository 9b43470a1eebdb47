package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
)

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (r *rig) do(q *http.Request) answer {
	r.t.Helper()
	res, err := r.server.Client().Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		r.t.Fatal(err)
	}
	a := answer{res.StatusCode, res.Header, b}
	if err := r.documented(q, a); err != nil {
		r.t.Error(err)
	}
	return a
}

func (r *rig) request(method, key, path string, body io.Reader) *http.Request {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	if key != "" {
		q.Header.Set("X-API-Key", key)
	}
	return q
}

func (r *rig) get(key, path string) answer { return r.do(r.request("GET", key, path, nil)) }

// post sends v as JSON, or a string as it is.
func (r *rig) post(key, path string, v any) answer {
	r.t.Helper()
	raw, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			r.t.Fatal(err)
		}
		raw = string(b)
	}
	q := r.request("POST", key, path, strings.NewReader(raw))
	q.Header.Set("Content-Type", "application/json")
	return r.do(q)
}

type obj = map[string]any

// into decodes an answer that must have a status.
func into[T any](t testing.TB, a answer, status int) T {
	t.Helper()
	var v T
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// exec runs a shell script that must be let in.
func (r *rig) exec(key, code string, more ...obj) CodeResult {
	r.t.Helper()
	body := obj{"lang": "bash", "code": code}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return into[CodeResult](r.t, r.post(key, "/v1/exec", body), 200)
}

// field is one part of a form: a file when it has a file name.
type field struct{ name, filename, value string }

func form(t testing.TB, parts ...field) (io.Reader, string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, p := range parts {
		d := `form-data; name="` + p.name + `"`
		if p.filename != "" {
			d += `; filename="` + p.filename + `"`
		}
		pw, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {d}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(pw, p.value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b, w.FormDataContentType()
}

func (r *rig) send(key, path string, parts ...field) answer {
	r.t.Helper()
	body, contentType := form(r.t, parts...)
	q := r.request("POST", key, path, body)
	q.Header.Set("Content-Type", contentType)
	return r.do(q)
}

type stored struct {
	Message          string
	SessionID        string `json:"session_id"`
	StorageSessionID string `json:"storage_session_id"`
	Files            []uploaded
	Succeeded        int
	Failed           int
}

// upload stores files in a new session and returns it.
func (r *rig) upload(key string, parts ...field) stored {
	r.t.Helper()
	return into[stored](r.t, r.send(key, "/v1/upload", parts...), 200)
}

// ref is an input ref to a file of an upload.
func (s stored) ref(k int, name string) CodeFile {
	return CodeFile{ID: s.Files[k].FileID, Name: name, StorageSessionID: s.SessionID}
}

func csv(name, value string) field { return field{"file", name, value} }

// names of the files of a result, inherited ones in parentheses.
func fileNames(files []CodeFile) string {
	var out []string
	for _, f := range files {
		if f.Inherited {
			out = append(out, "("+f.Name+")")
		} else {
			out = append(out, f.Name)
		}
	}
	return strings.Join(out, " ")
}
