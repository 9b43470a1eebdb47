package clienttest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// client has no connection that another test used.
func (s server) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// longRun is a run of seven seconds, silent for three at most.
func longRun(t *testing.T, s server, accept string) *http.Request {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/exec", strings.NewReader(`{"lang":"py","code":"import time; time.sleep(7); print('done')"}`))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-API-Key", s.key)
	q.Header.Set("Accept", accept)
	return q
}

var wireRows = []row{
	{40, "no credential at all", func(t *testing.T, s server) {
		for path, method := range map[string]string{"/v1/exec": "POST", "/v1/upload": "POST", "/v1/files/x": "GET", "/v1/download/x/y": "GET", "/exec/programmatic": "POST"} {
			r := s.send(t, method, path, map[string]string{"X-API-Key": ""}, strings.NewReader("{}"))
			wantError(t, r, 401, "unauthorized")
		}
	}},
	{41, "key and bearer together", func(t *testing.T, s server) {
		// A bearer that says nothing to this server, which has no issuer: with one,
		// TestAdmit of host/admission.
		r := s.send(t, "POST", "/v1/exec", map[string]string{"Authorization": "Bearer x.y.z"}, strings.NewReader(`{"lang":"py","code":"print(1)"}`))
		if res := into[outcome](t, r, 200); res.Stdout != "1\n" {
			t.Errorf("%+v", res)
		}
	}},
	{43, "members that decide nothing", func(t *testing.T, s server) {
		r := s.post(t, "/v1/exec", obj{
			"lang": "py", "code": "print(1)", "apiKey": "sk-leaked-into-the-body", "user_id": "u", "entity_id": "e!", "intent": "x",
			"workspace_instance_id": "w", "files": []any{}, "unknown": obj{"a": []any{1}},
		})
		if res := into[outcome](t, r, 200); res.Stdout != "1\n" || strings.Contains(r.body, "sk-leaked") {
			t.Errorf("%s", r.body)
		}
		r = s.post(t, "/v1/exec", `{"lang":"py","apiKey":"sk-leaked-into-the-body","code":`)
		wantError(t, r, 400, "invalid_json")
		if strings.Contains(r.body+s.log.String(), "sk-leaked") {
			t.Error("the key is in an answer or in the log")
		}
	}},
	{44, "spellings of a language", func(t *testing.T, s server) {
		for _, lang := range []string{" PY ", "python", "Python3"} {
			if res := s.run(t, lang, "print(1)"); res.Stdout != "1\n" {
				t.Errorf("%q: %+v", lang, res)
			}
		}
		r := s.post(t, "/v1/exec", obj{"lang": "brainfuck", "code": "+"})
		wantError(t, r, 400, "unsupported_language")
		for _, lang := range []string{"brainfuck", "py", "js", "bash"} {
			if !strings.Contains(r.body, lang) {
				t.Errorf("%s is not in %s", lang, r.body)
			}
		}
	}},
	{60, "a runtime hint of any shape", func(t *testing.T, s server) {
		for _, hint := range []any{strings.Repeat("x", 500), "a b/../c\n", "", 7, nil, obj{}} {
			if res := s.run(t, "bash", "echo 1", obj{"runtime_session_hint": hint}); res.Stdout != "1\n" {
				t.Errorf("%v: %+v", hint, res)
			}
		}
	}},
	{64, "a path in another case", func(t *testing.T, s server) {
		for _, key := range []string{"", s.key} {
			r := s.send(t, "POST", "/V1/EXEC", map[string]string{"X-API-Key": key}, strings.NewReader(`{"lang":"py","code":"print(1)"}`))
			if r.status == 200 || key == "" && r.status != 401 && r.status != 404 {
				t.Errorf("key %q: %d %s", key, r.status, r.body)
			}
		}
	}},
	{65, "a query beside the body", func(t *testing.T, s server) {
		r := s.post(t, "/v1/exec?code=print(666)&lang=js&session_id=x&timeout=1", obj{"lang": "py", "code": "print(1)"})
		if res := into[outcome](t, r, 200); res.Stdout != "1\n" {
			t.Errorf("%+v", res)
		}
	}},
	{69, "whoever hangs up", func(t *testing.T, s server) {
		id := s.run(t, "bash", "echo kept > a").SessionID
		s.hangUp(t, obj{"lang": "py", "session_id": id, "code": "import time\nprint('here', flush=True)\nfor i in range(600):\n open('n', 'w').write(str(i))\n time.sleep(0.1)"})
		// The session is kept, and the next run waits for nothing but the end of the last.
		start := time.Now()
		first := s.run(t, "bash", "cat a; cat n", obj{"session_id": id})
		time.Sleep(300 * time.Millisecond)
		second := s.run(t, "bash", "cat a; cat n", obj{"session_id": id})
		if first.SessionID != id || !strings.HasPrefix(first.Stdout, "kept\n") || first.Stdout != second.Stdout || time.Since(start) > 30*time.Second {
			t.Errorf("%q, then %q", first.Stdout, second.Stdout)
		}
	}},
	{70, "uploads of 150 MiB and more", func(t *testing.T, s server) {
		if testing.Short() {
			t.Skip("SKIP: three hundred megabytes are for the long run")
		}
		const limit = 150 << 20
		r := s.sendLarge(t, limit)
		up := into[stored](t, r, 200)
		if h := s.send(t, "HEAD", "/v1/download/"+up.SessionID+"/"+up.Files[0].FileID, nil, nil); h.header.Get("Content-Length") != "157286400" {
			t.Errorf("stored with %v", h.header)
		}
		if r := s.send(t, "DELETE", "/v1/files/"+up.SessionID+"/"+up.Files[0].FileID, nil, nil); r.status != 204 {
			t.Errorf("DELETE: %d", r.status)
		}
		r = s.sendLarge(t, limit+1)
		wantError(t, r, 413, "File size limit exceeded")
	}},
	{71, "forms that are none", func(t *testing.T, s server) {
		whole, contentType := form(fileNamed("a", "1"))
		for what, q := range map[string]struct{ contentType, body string }{
			"no boundary":     {"multipart/form-data", whole},
			"JSON":            {"application/json", "{}"},
			"nothing":         {"", ""},
			"another":         {"multipart/mixed; boundary=x", "--x--\r\n"},
			"no parts":        {contentType, "--" + strings.TrimPrefix(contentType, "multipart/form-data; boundary=") + "--\r\n"},
			"breaks off":      {contentType, whole[:len(whole)-20]},
			"other bounds":    {contentType + "x", whole},
			"fields, no file": {contentType, func() string { b, _ := form(part{name: "kind", value: "user"}); return b }()},
		} {
			for _, path := range []string{"/v1/upload", "/v1/upload/batch"} {
				r := s.send(t, "POST", path, map[string]string{"Content-Type": q.contentType}, strings.NewReader(q.body))
				if r.status != 400 {
					t.Errorf("%s, %s: %d %s", path, what, r.status, r.body)
				}
				wantError(t, r, 400, "")
			}
		}
	}},
}

// sendLarge uploads one file of size bytes, chunked as a stream of unknown length is.
func (s server) sendLarge(t *testing.T, size int64) response {
	t.Helper()
	body, contentType := form(fileNamed("large.bin", "\x00MARK\x00"))
	before, after, _ := strings.Cut(body, "\x00MARK\x00")
	stream := io.MultiReader(strings.NewReader(before), io.LimitReader(zeros{}, size), strings.NewReader(after))
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/upload", io.NopCloser(stream))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", contentType)
	q.Header.Set("X-API-Key", s.key)
	res, err := s.client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || len(q.TransferEncoding) > 0 && q.ContentLength > 0 {
		t.Fatal(err)
	}
	if !json.Valid(b) {
		t.Errorf("%q", b)
	}
	return response{res.StatusCode, res.Header, string(b)}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
