package clienttest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// agentHeaders are what every generation of the client sends (wire reference §9.3).
var agentHeaders = map[string]string{
	"Accept": "*/*", "Accept-Encoding": "gzip, deflate, br", "Content-Type": "application/json", "User-Agent": "LibreChat/1.0",
}

// replay sends what clients were seen to send, byte for byte but for ids, and reads of
// the answers what they read.
func replay(t *testing.T, s server) {
	up := s.upload(t, fileNamed("data.csv", "1,2\n"))
	ids := strings.NewReplacer("SID", up.SessionID, "FID", up.Files[0].FileID)
	for _, c := range []struct {
		name, body string
		headers    map[string]string // beside agentHeaders; "" removes
		stdout     string
	}{
		{"3.9.2 minimal", `{"lang":"py","code":"print(1)"}`, nil, "1\n"},
		{
			"3.9.2 args and injected file", `{"lang":"bash","code":"echo \"$2\"; cat data.csv","args":["a","b c"],"files":[{"id":"FID","resource_id":"user-1","name":"data.csv","storage_session_id":"SID","kind":"user"}]}`,
			nil, "b c\n1,2\n",
		},
		{
			"3.9.2 factory parameters", `{"lang":"js","code":"console.log(1)","session_id":"SID","user_id":"u1","files":[{"id":"FID","name":"data.csv","storage_session_id":"SID"}]}`,
			map[string]string{"X-Codeapi-Expected-Profile": "default"},
			"1\n",
		},
		{"3.9.2 hint", `{"lang":"py","code":"print(1)","runtime_session_hint":"conv-42"}`, nil, "1\n"},
		{"3.9.2 bash", `{"lang":"bash","code":"echo hi","args":["z"]}`, nil, "hi\n"},
		{
			"3.9.2 programmatic without tools", `{"lang":"py","code":"async def __user_main__():\n    print(1)\nimport asyncio\nasyncio.run(__user_main__())\n","timeout":15000,"session_id":"SID"}`,
			nil, "1\n",
		},
		{"3.2.57 minimal", `{"lang":"py","code":"print(1)","apiKey":"sk-test","user_id":"u1"}`, nil, "1\n"},
		{"3.2.57 session of the model's", `{"lang":"py","code":"import sys; print(open('data.csv').read(), sys.argv[1])","session_id":"SID","args":["a"],"apiKey":"sk-test","user_id":"u1"}`, nil, "1,2\n a\n"},
		{"3.2.57 injected", `{"lang":"py","code":"print(open('data.csv').read())","files":[{"id":"FID","name":"data.csv","session_id":"SID"}],"apiKey":"sk-test"}`, nil, "1,2\n\n"},
		{"3.0.50 minimal", `{"lang":"py","code":"print(1)","apiKey":"sk-test","user_id":"u1"}`, nil, "1\n"},
		{"3.0.50 session of the model's", `{"lang":"py","code":"print(open('data.csv').read())","files":[{"session_id":"SID","id":"FID","name":"data.csv"}],"apiKey":"sk-test"}`, nil, "1,2\n\n"},
		{"key as Basic, in the address", `{"lang":"py","code":"print(1)"}`, map[string]string{"X-API-Key": "", "Authorization": "Basic YS1rZXktb2YtdGhlLXRlc3Q6"}, "1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := map[string]string{}
			for _, more := range []map[string]string{agentHeaders, c.headers} {
				for k, v := range more {
					headers[k] = v
				}
			}
			r := s.send(t, http.MethodPost, "/v1/exec", headers, strings.NewReader(ids.Replace(c.body)))
			if res := into[outcome](t, r, 200); res.Stdout != c.stdout || res.Stderr != "" || !idRule.MatchString(res.SessionID) {
				t.Errorf("%s", r.body)
			}
			if r.header.Get("Content-Encoding") != "" || strings.Contains(r.body, "sk-test") {
				t.Errorf("%v %s", r.header, r.body)
			}
		})
	}
	// What only some deployments are is refused before anything runs, in words that tell
	// the model not to try again.
	for header, want := range map[string]string{
		"X-Codeapi-Expected-Profile": "execution_profile_mismatch", "X-Librechat-Code-Worker-Id": "stateful_workspace_unsupported",
		"X-Librechat-Code-Workspace-Id": "stateful_workspace_unsupported",
	} {
		r := s.send(t, http.MethodPost, "/v1/exec", map[string]string{header: "stateful"}, strings.NewReader(`{"lang":"py","code":"print(1)"}`))
		if e := into[obj](t, r, 409); e["error"] != want {
			t.Errorf("%s: %s", header, r.body)
		}
	}
	// The listings and downloads around them.
	for path, want := range map[string]string{
		"/v1/files/SID?detail=full":                      `"original-filename":"data.csv"`,
		"/v1/files/SID?detail=summary&entity_id=agent_1": `"name":"SID/FID"`,
		"/v1/files/SID?detail=full&kind=user&id=u":       `"id":"FID"`,
		"/v1/sessions/SID/objects/FID?kind=user&id=u":    `"lastModified":"`,
		"/v1/download/SID/FID?entity_id=agent_1":         "1,2\n",
		"/v1/exec/download/SID/FID?kind=user&id=u":       "1,2\n",
		"/files/SID":                        `"storage_session_id":"SID"`,
		"/v1/exec/sessions/SID/objects/FID": `"originalFilename":"data.csv"`,
	} {
		r := s.send(t, http.MethodGet, ids.Replace(path), map[string]string{"Accept": "application/json, text/plain, */*", "Accept-Encoding": "gzip, compress, deflate, br"}, nil)
		if r.status != 200 || !strings.Contains(r.body, ids.Replace(want)) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

// forms uploads what the host application was seen to send (wire reference §9.4), byte
// for byte.
func forms(t *testing.T, s server) {
	const quotedName = `my données 数据 %22q%22.csv`
	table := part{name: "file", filename: `my données 数据 "q".csv`, contentType: "text/csv", value: "a,b\n"}
	wrong := table
	wrong.contentType = "image/png" // taken from the path of the stream
	md := part{name: "file", filename: "skills/demo/SKILL.md", contentType: "text/markdown", value: "#"}
	py := part{name: "file", filename: "skills/demo/a.py", contentType: "text/x-python", value: "1"}
	for _, c := range []struct {
		name, path string
		parts      []part
		want       []string
	}{
		{"a file alone", "/v1/upload", []part{table}, []string{quotedName}},
		{"a wrong type", "/v1/upload", []part{wrong}, []string{quotedName}},
		{"an entity first", "/v1/upload", []part{{name: "entity_id", value: "agent_1"}, table}, []string{quotedName}},
		{"kind and id", "/v1/upload", []part{{name: "kind", value: "user"}, {name: "id", value: "507f1f77bcf86cd799439011"}, table}, []string{quotedName}},
		{
			"a skill", "/v1/upload/batch",
			[]part{{name: "kind", value: "skill"}, {name: "id", value: "sk1"}, {name: "version", value: "7"}, {name: "read_only", value: "true"}, md, py},
			[]string{"skills/demo/SKILL.md", "skills/demo/a.py"},
		},
		{"the other spelling", "/upload", []part{{name: "files", filename: "a.txt", contentType: "text/plain", value: "1"}}, []string{"a.txt"}},
		{"the folded path", "/v1/exec/upload", []part{{name: "file", filename: "a.txt", contentType: "text/plain", value: ""}}, []string{"a.txt"}},
	} {
		body, contentType := form(c.parts...)
		for _, chunked := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: ", chunked"}[chunked], func(t *testing.T) {
				r := s.sendRaw(t, c.path, contentType, body, chunked)
				up := into[stored](t, r, 200)
				if up.Message != "success" || up.SessionID == "" || up.SessionID != up.StorageSessionID || len(up.Files) != len(c.want) {
					t.Fatalf("%s", r.body)
				}
				for k, want := range c.want {
					if up.Files[k].Filename != want || up.Files[k].Status != "success" || !idRule.MatchString(up.Files[k].FileID) {
						t.Errorf("%+v, want %q", up.Files[k], want)
					}
				}
			})
		}
	}
	// The header that the host application sets by itself has no boundary.
	body, _ := form(table)
	wantError(t, s.sendRaw(t, "/v1/upload", "multipart/form-data", body, false), 400, "invalid_body")
}

// sendRaw uploads with the headers of the host application, with a length or as a
// stream of unknown length, which comes in chunks.
func (s server) sendRaw(t *testing.T, path, contentType, body string, chunked bool) response {
	t.Helper()
	headers := map[string]string{
		"Content-Type": contentType, "User-Agent": "LibreChat/1.0", "User-Id": "507f1f77bcf86cd799439011", "Accept": "application/json, text/plain, */*",
	}
	if chunked {
		return s.send(t, http.MethodPost, path, headers, &trickle{rest: body})
	}
	return s.send(t, http.MethodPost, path, headers, strings.NewReader(body))
}

// trickle is a body of unknown length, seven bytes at a time.
type trickle struct{ rest string }

func (r *trickle) Read(p []byte) (int, error) {
	if r.rest == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(7, len(p))], r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// pipelined sends several requests over one connection without waiting, one of them
// a run that is kept alive: answers come in order, whole.
func pipelined(t *testing.T, s server) {
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var all strings.Builder
	for _, code := range []string{"print(1)", "import time; time.sleep(4); print(2)", "print(3)"} {
		body := `{"lang":"py","code":` + quoted(code) + `}`
		all.WriteString("POST /v1/exec HTTP/1.1\r\nHost: x\r\nX-API-Key: " + s.key +
			"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	}
	if _, err := conn.Write([]byte(all.String())); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for _, want := range []string{"1\n", "2\n", "3\n"} {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if out := into[outcome](t, response{status: res.StatusCode, body: string(b)}, 200); out.Stdout != want {
			t.Errorf("%+v, want %q", out, want)
		}
	}
}
