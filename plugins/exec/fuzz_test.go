package exec

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/sdk/backend"
)

// serve answers q without a network; the fuzzing engine wants many answers.
func (r *rig) serve(q *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.mux.ServeHTTP(w, q)
	return w
}

// drop ends a session that an answer names.
func (r *rig) drop(t *testing.T, id string) {
	if err := r.End(context.Background(), "acme", id); err != nil {
		t.Fatal(err)
	}
}

// refusal checks the shape of an answer that is none.
func refusal(t *testing.T, what string, w *httptest.ResponseRecorder) {
	var e struct {
		Message string
		Status  int
		Error   any
	}
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Message == "" || e.Status != w.Code || e.Error == nil {
		t.Errorf("%s: %d %q: %v", what, w.Code, w.Body, err)
	}
	if w.Code >= 500 && w.Code != http.StatusNotImplemented {
		t.Errorf("%s: %d %q", what, w.Code, w.Body)
	}
}

// Whatever a path, a query and a range say, they reach the caller's own files or
// nothing, and the refusal has the one shape.
func FuzzPaths(f *testing.F) {
	r := newRig(f)
	mine := r.exec(alice, "mkdir -p d; echo mine > d/own; ln -s /etc/passwd link; ln -s ../../.. up")
	theirs := r.exec(mallory, "echo foreign-secret > f")
	box := r.box(mine.SessionID)
	for _, path := range []string{
		"/v1/download/MINE/FILE", "/download/MINE/d/own", "/v1/exec/files/MINE?detail=full&kind=user&id=u", "/sessions/MINE/objects/FILE",
		"/v1/download/MINE/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/v1/download/MINE/link", "/download/MINE/up/etc/passwd", "/v1/download/THEIRS/f",
		"/v1/download/MINE/d%2Fown?entity_id=a%00b&version=x", "/V1/DOWNLOAD/MINE/FILE", "//v1//files/MINE/", "/v1/files/%zz", "/v1/files/../../THEIRS",
	} {
		f.Add(path, "bytes=0-1,3-", false)
	}
	f.Add("/v1/files/MINE/none", "bytes=-9999999999999999999", true)
	f.Add("/sessions/MINE/objects/FILE", "", true)
	ids := strings.NewReplacer("MINE", mine.SessionID, "THEIRS", theirs.SessionID, "FILE", mine.Files[0].ID)
	f.Fuzz(func(t *testing.T, path, ranges string, remove bool) {
		method := "GET"
		if remove {
			method = "DELETE"
		}
		target := ids.Replace(path)
		if strings.ContainsAny(target, " \r\n") || !strings.HasPrefix(target, "/") || strings.ContainsAny(ranges, "\r\n") {
			return // not one request
		}
		q, err := http.ReadRequest(bufio.NewReader(strings.NewReader(method + " " + target + " HTTP/1.1\r\nHost: x\r\nX-API-Key: alice\r\nRange: " + ranges + "\r\n\r\n")))
		if err != nil {
			return
		}
		w := r.serve(q)
		body := w.Body.String()
		if strings.Contains(body, "foreign-secret") || strings.Contains(body, "root:") || strings.Contains(body, r.shells.root) {
			t.Fatalf("%s %s: %d %q", method, target, w.Code, body)
		}
		switch {
		case w.Code == http.StatusNoContent: // it was ours to delete
			if _, err := r.shells.Backend.WriteFile(t.Context(), box, backend.DataDir+"/d/own", backend.WriteOptions{}, strings.NewReader("mine\n")); err != nil {
				t.Fatal(err)
			}
		case w.Code >= 400 && w.Header().Get("Content-Type") == "application/json":
			refusal(t, method+" "+target, w)
		case w.Code >= 500:
			t.Errorf("%s %s: %d %q", method, target, w.Code, body)
		}
	})
}

// Whatever a form holds, it is stored below the data directory of a session of the
// caller's, downloads as it was sent, or is refused whole.
func FuzzUploads(f *testing.F) {
	r := newRig(f, func(o *Options) { o.UploadBytes = 1 << 16; o.UploadFiles = 20 })
	const boundary = "multipart/form-data; boundary=b"
	for _, names := range []string{"a.csv", "../x", `dir\y`, "a/b/c", "données.csv", "\x00", strings.Repeat("n", 300), "x\"; name=\"session_id"} {
		f.Add(boundary, []byte("--b\r\nContent-Disposition: form-data; name=\"kind\"\r\n\r\nskill\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\""+names+"\"\r\n\r\ncontent\r\n--b--\r\n"), true)
	}
	f.Add(boundary, []byte("--b\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n../..\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename*=UTF-8''%2e%2e%2fx\r\n\r\n1\r\n--b--"), false)
	f.Add("multipart/form-data", []byte("--b--\r\n"), false)
	f.Fuzz(func(t *testing.T, contentType string, body []byte, batch bool) {
		if strings.ContainsAny(contentType, "\r\n") {
			return
		}
		path := "/v1/upload"
		if batch {
			path += "/batch"
		}
		q := httptest.NewRequest("POST", path, bytes.NewReader(body))
		q.Header.Set("X-API-Key", alice)
		q.Header.Set("Content-Type", contentType)
		w := r.serve(q)
		if w.Code != http.StatusOK {
			var some stored // of a batch in which all failed
			if json.Unmarshal(w.Body.Bytes(), &some) != nil || some.Failed == 0 {
				refusal(t, path, w)
			}
			return
		}
		var up stored
		if err := json.Unmarshal(w.Body.Bytes(), &up); err != nil {
			t.Fatalf("%v: %q", err, w.Body)
		}
		defer r.drop(t, up.SessionID)
		for _, file := range up.Files {
			if file.Status != success {
				continue
			}
			if _, err := names.Upload(file.Filename); err != nil {
				t.Errorf("stored as %q, which %v", file.Filename, err)
			}
			q := httptest.NewRequest("GET", "/v1/download/"+up.SessionID+"/"+file.FileID, nil)
			q.Header.Set("X-API-Key", alice)
			if w := r.serve(q); w.Code != http.StatusOK || int64(w.Body.Len()) != file.Size {
				t.Errorf("download of %q: %d, %d bytes of %d", file.Filename, w.Code, w.Body.Len(), file.Size)
			}
		}
	})
}

// Whatever a body holds, it is a run or a refusal in the one shape, with events or
// without; whatever the program then writes, the answer can be read.
func FuzzRuns(f *testing.F) {
	r := newRig(f)
	r.shells.onRun = func(_ context.Context, spec backend.RunSpec, rio backend.RunIO) (backend.RunResult, error, bool) {
		if err := rio.Started(); err != nil {
			return backend.RunResult{}, err, true
		}
		code := spec.Program.Source // nothing of it runs
		for k := 0; k < len(code); k += 3 {
			piece := code[k:min(k+3, len(code))]
			if err := rio.Stdout(piece); err != nil {
				return backend.RunResult{}, err, true
			}
			if err := rio.Stderr(piece); err != nil {
				return backend.RunResult{}, err, true
			}
		}
		return backend.RunResult{Stop: backend.StopExit}, nil, true
	}
	for _, body := range []string{
		`{"lang":"bash","code":"é\u0000\u001b[31m","args":["a"],"timeout":"1e3"}`, `{"lang":" SH ","code":"x","session_id":"m_0123456789abcdef01234567"}`,
		`{"lang":"bash","code":"x","files":[{"id":"a","name":"../b","session_id":"c"},{"id":"a","name":"b","modified_from":7}]}`, `{"lang":"go","code":"x"}`, `{`, `null`,
	} {
		f.Add([]byte(body), "*/*")
		f.Add([]byte(body), "text/event-stream, application/json;q=0.5")
	}
	f.Fuzz(func(t *testing.T, body []byte, accept string) {
		q := httptest.NewRequest("POST", "/v1/exec", bytes.NewReader(body))
		q.Header.Set("X-API-Key", alice)
		q.Header.Set("Accept", accept)
		w := r.serve(q)
		if w.Code != http.StatusOK {
			refusal(t, string(body), w)
			return
		}
		raw, stdout := w.Body.Bytes(), ""
		if w.Header().Get("Content-Type") == "text/event-stream" {
			lines := bufio.NewReader(w.Body)
			var last told
			for {
				e, err := next(lines)
				if err != nil {
					break
				}
				var d struct{ Text string }
				if e.name == "stdout" && json.Unmarshal(e.data, &d) == nil {
					stdout += d.Text
				}
				last = e
			}
			if last.name != "result" {
				t.Fatalf("%q ends with %q", body, last.name)
			}
			raw = last.data
		}
		var res CodeResult
		if err := json.Unmarshal(raw, &res); err != nil || len(res.SessionID) != 21 || res.Files == nil {
			t.Fatalf("%v: %q", err, raw)
		}
		if stdout != "" && stdout != res.Stdout {
			t.Errorf("events say %q, the result %q", stdout, res.Stdout)
		}
		r.drop(t, res.SessionID)
	})
}
