package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/plugins/exec/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// beside mounts a second entry on a rig.
type beside struct {
	*rig
	intercept func(http.ResponseWriter, *http.Request) bool
}

func (b *beside) Intercept(f func(http.ResponseWriter, *http.Request) bool) { b.intercept = f }

func (b *beside) Handle(pattern string, h http.Handler, refuse func(http.ResponseWriter, *http.Request, *host.HTTPError)) {
	b.mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
		if b.intercept(w, q) {
			return
		}
		who, ok := b.principal[q.Header.Get("X-API-Key")]
		if !ok {
			refuse(w, q, &host.HTTPError{Status: 401, Code: "unauthorized", Message: "no valid credential"})
			return
		}
		h.ServeHTTP(w, q.WithContext(host.WithPrincipal(q.Context(), who)))
	})
}

func newMCP(t *testing.T, adjust ...func(*mcp.Options)) *rig {
	t.Helper()
	r := newRig(t)
	r.mountMCP(adjust...)
	return r
}

func (r *rig) mountMCP(adjust ...func(*mcp.Options)) {
	r.t.Helper()
	o := mcp.Options{Handler: r.mux}
	for _, f := range adjust {
		f(&o)
	}
	s, err := mcp.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	s.Mount(&beside{rig: r})
}

// keyed adds a key to a client's requests.
type keyed struct {
	key string
	rt  http.RoundTripper
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-API-Key", k.key)
	return k.rt.RoundTrip(r)
}

// connect is a session of the protocol. Without a version the newest is spoken.
func (r *rig) connect(key, version string) *sdk.ClientSession {
	r.t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	var o *sdk.ClientSessionOptions
	if version != "" {
		o = &sdk.ClientSessionOptions{ProtocolVersion: version}
	}
	s, err := c.Connect(r.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: r.server.URL + mcp.Path, HTTPClient: &http.Client{Transport: keyed{key, r.server.Client().Transport}},
	}, o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// tool calls a tool. An error of the tool comes back as text.
func tool[T any](t *testing.T, s *sdk.ClientSession, name string, args obj) (out T, fault string) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return out, "protocol: " + err.Error()
	}
	if res.IsError {
		return out, res.Content[0].(*sdk.TextContent).Text
	}
	b, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out, ""
}

type toolFile struct {
	ID, Name, Type string
	Size           int64
}

type ran struct {
	SessionID string `json:"session_id"`
	Stdout    string
	Stderr    string
	Cut       bool
	ExitCode  *int `json:"exit_code"`
	Status    string
	Files     []toolFile
	MoreFiles int `json:"more_files"`
}

type put struct {
	SessionID string `json:"session_id"`
	File      toolFile
}

type list struct {
	Files []toolFile
	Total int
}

type contents struct {
	Type, Text, Base64 string
	Size, Offset, Next int64
	Image              bool
}

var protocols = []string{"2025-06-18", "2025-11-25", ""}

func TestMCPTools(t *testing.T) {
	for _, version := range protocols {
		t.Run("protocol "+version, func(t *testing.T) {
			r := newMCP(t)
			s := r.connect(alice, version)
			tools, err := s.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 5 {
				t.Fatalf("%+v, %v", tools, err)
			}
			up, fault := tool[put](t, s, "upload_file", obj{"name": "d/a.csv", "text": "1,2\n"})
			if fault != "" || up.File.Size != 4 || up.File.Name != "d/a.csv" {
				t.Fatalf("%+v, %s", up, fault)
			}
			run, fault := tool[ran](t, s, "run_code", obj{"language": "bash", "code": `cat d/a.csv; echo "$1" >b.txt; exit 3`, "args": []string{"x y"}, "session_id": up.SessionID})
			if fault != "" || run.Stdout != "1,2\n" || run.ExitCode == nil || *run.ExitCode != 3 || run.SessionID != up.SessionID || len(run.Files) != 1 || run.Files[0].Name != "b.txt" {
				t.Fatalf("%+v, %s", run, fault)
			}
			l, fault := tool[list](t, s, "list_files", obj{"session_id": run.SessionID})
			if fault != "" || l.Total != 2 || len(l.Files) != 2 {
				t.Errorf("%+v, %s", l, fault)
			}
			for _, file := range []string{"b.txt", run.Files[0].ID} {
				x, fault := tool[contents](t, s, "read_file", obj{"session_id": run.SessionID, "file": file})
				if fault != "" || x.Text != "x y\n" || x.Size != 4 || x.Next != 0 {
					t.Errorf("%+v, %s", x, fault)
				}
			}
			// A file of one session as the input of a new one.
			fresh, fault := tool[ran](t, s, "run_code", obj{"language": "bash", "code": "cat in; ls", "files": []obj{{"session_id": run.SessionID, "file": "b.txt", "name": "in"}}})
			if fault != "" || !strings.HasPrefix(fresh.Stdout, "x y\n") {
				t.Errorf("%+v, %s", fresh, fault)
			}
			d, fault := tool[obj](t, s, "describe", nil)
			if langs, _ := d["languages"].([]any); fault != "" || len(langs) != 2 || strings.Contains(fmt.Sprint(d), "/opt/secret") {
				t.Errorf("%v, %s", d, fault)
			}
			d, fault = tool[obj](t, s, "describe", obj{"operation": "runCode"})
			if op, _ := d["operation"].(obj); fault != "" || op["operationId"] != "runCode" {
				t.Errorf("%v, %s", d, fault)
			}
		})
	}
}

func TestMCPRefusals(t *testing.T) {
	r := newMCP(t)
	s := r.connect(alice, "")
	mine, _ := tool[put](t, s, "upload_file", obj{"name": "a", "text": "1"})
	for name, tt := range map[string]struct {
		tool string
		args obj
		want string
	}{
		"unknown language": {"run_code", obj{"language": "cobol", "code": "x"}, "unsupported_language: Unsupported language: cobol"},
		"no code":          {"run_code", obj{"language": "bash", "code": ""}, "invalid_request: code is required"},
		"bad session":      {"run_code", obj{"language": "bash", "code": "true", "session_id": "../x"}, "invalid_request: session_id"},
		"unknown argument": {"run_code", obj{"language": "bash", "code": "true", "org": "evil"}, "additional"},
		"neither content":  {"upload_file", obj{"name": "a"}, "one of text and base64"},
		"both contents":    {"upload_file", obj{"name": "a", "text": "", "base64": ""}, "one of text and base64"},
		"no base64":        {"upload_file", obj{"name": "a", "base64": "!"}, "base64 is no base64"},
		"leading out":      {"upload_file", obj{"name": "../a", "text": ""}, "invalid_file"},
		"header injection": {"upload_file", obj{"name": "a\"\r\nX: y", "text": ""}, "name must not"},
		"no such session":  {"upload_file", obj{"name": "a", "text": "", "session_id": strings.Repeat("x", 21)}, "not_found: session not found"},
		"no such file":     {"read_file", obj{"session_id": mine.SessionID, "file": "b"}, "not_found: File not found"},
		"path for session": {"read_file", obj{"session_id": mine.SessionID + "/a/../..", "file": "b"}, "session_id must be"},
		"dots for session": {"list_files", obj{"session_id": ".."}, "session_id must be"},
		"beyond the end":   {"read_file", obj{"session_id": mine.SessionID, "file": "a", "offset": 5}, "range_not_satisfiable"},
		"negative":         {"read_file", obj{"session_id": mine.SessionID, "file": "a", "offset": -5}, "not negative"},
		"no operation":     {"describe", obj{"operation": "x"}, "no such operation"},
	} {
		if _, fault := tool[obj](t, s, tt.tool, tt.args); !strings.Contains(fault, tt.want) {
			t.Errorf("%s: %q, want %q", name, fault, tt.want)
		}
	}
	r.shells.onCreate = func() error { panic("with a /secret/path") }
	if _, fault := tool[obj](t, s, "run_code", obj{"language": "bash", "code": "true"}); fault != "internal: internal error" {
		t.Errorf("a panic: %q", fault)
	}
	r.shells.onCreate = nil
	r.shells.leftovers(t)
}

// What tools do is charged, refused and judged like what requests do.
func TestMCPMoney(t *testing.T) {
	r := newMCP(t)
	program := obj{"language": "bash", "code": "echo hi"}
	if _, fault := tool[ran](t, r.connect(broke, ""), "run_code", program); !strings.HasPrefix(fault, "insufficient_balance") {
		t.Errorf("without a cent: %q", fault)
	}
	if len(r.usage()) != 0 {
		t.Error("a refused run is in the books")
	}
	s := r.connect(rich, "")
	for range 2 {
		if res, fault := tool[ran](t, s, "run_code", program); res.Stdout != "hi\n" {
			t.Errorf("%+v, %s", res, fault)
		}
	}
	if u := r.usage(); len(u) != 2 || u[0].Usage.User != "rich" || u[0].Usage.Cents != 1 {
		t.Errorf("usage = %+v", u)
	}
	r.standing = func(host.Principal) error { return host.ErrInsufficient }
	if _, fault := tool[put](t, s, "upload_file", obj{"name": "a", "text": ""}); !strings.HasPrefix(fault, "insufficient_balance") {
		t.Errorf("an upload without standing: %q", fault)
	}
}

// Nothing of another tenant can be told from what does not exist.
func TestMCPTenants(t *testing.T) {
	r := newMCP(t)
	s, other := r.connect(alice, "2025-11-25"), r.connect(mallory, "2025-11-25")
	mine, _ := tool[put](t, s, "upload_file", obj{"name": "a", "text": "secret"})
	absent := strings.Repeat("x", 21)
	for name, args := range map[string]func(session, file string) (string, obj){
		"read": func(session, file string) (string, obj) { return "read_file", obj{"session_id": session, "file": file} },
		"list": func(session, _ string) (string, obj) { return "list_files", obj{"session_id": session} },
		"upload": func(session, _ string) (string, obj) {
			return "upload_file", obj{"session_id": session, "name": "x", "text": ""}
		},
	} {
		call, theirs := args(mine.SessionID, mine.File.ID)
		_, nothing := args(absent, absent)
		got, fault := tool[obj](t, other, call, theirs)
		want, wanted := tool[obj](t, other, call, nothing)
		if fmt.Sprint(got, fault) != fmt.Sprint(want, wanted) {
			t.Errorf("%s: %v %q, for what is absent %v %q", name, got, fault, want, wanted)
		}
	}
	run := func(session string) ran {
		res, fault := tool[ran](t, other, "run_code", obj{"language": "bash", "code": "cat a", "files": []obj{{"session_id": session, "file": "a", "name": "a"}}})
		if fault != "" || res.SessionID == session {
			t.Fatalf("%+v, %s", res, fault)
		}
		res.SessionID = ""
		return res
	}
	if got, want := run(mine.SessionID), run(absent); fmt.Sprint(got.Stdout, got.Stderr) != fmt.Sprint(want.Stdout, want.Stderr) || strings.Contains(got.Stdout, "secret") {
		t.Errorf("as an input: %+v, for what is absent %+v", got, want)
	}

	// A session of the protocol is its caller's.
	as := func(key, session, method string) answer {
		q := r.request(method, key, mcp.Path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		q.Header.Set("Mcp-Session-Id", session)
		return r.do(q)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		want := as(mallory, absent, method)
		for _, key := range []string{mallory, bob, service} {
			got := as(key, s.ID(), method)
			if got.status != 404 || got.status != want.status || !bytes.Equal(got.body, want.body) {
				t.Errorf("%s by %s: %d %s, for what is absent %d %s", method, key, got.status, got.body, want.status, want.body)
			}
		}
	}
	if a := as(alice, s.ID(), "POST"); a.status != 200 || !bytes.Contains(a.body, []byte("run_code")) {
		t.Errorf("their own: %d %s", a.status, a.body)
	}
	if a := as("", s.ID(), "POST"); a.status != 401 {
		t.Errorf("nobody: %d %s", a.status, a.body)
	}
}

// A session on another node is reached through any of them.
func TestMCPOfAnotherNode(t *testing.T) {
	owner, other := twoNodes(t)
	other.mountMCP()
	s := other.connect(alice, "")
	id := owner.exec(alice, "echo 1 >f").SessionID
	if up, fault := tool[put](t, s, "upload_file", obj{"name": "g", "text": "2\n", "session_id": id}); up.SessionID != id {
		t.Errorf("%+v, %s", up, fault)
	}
	if res, fault := tool[ran](t, s, "run_code", obj{"language": "bash", "code": "cat f g", "session_id": id}); res.SessionID != id || res.Stdout != "1\n2\n" {
		t.Errorf("%+v, %s", res, fault)
	}
	if x, fault := tool[contents](t, s, "read_file", obj{"session_id": id, "file": "g"}); x.Text != "2\n" {
		t.Errorf("%+v, %s", x, fault)
	}
	_, fault := tool[contents](t, other.connect(mallory, ""), "read_file", obj{"session_id": id, "file": "g"})
	if _, absent := tool[contents](t, other.connect(mallory, ""), "read_file", obj{"session_id": strings.Repeat("x", 21), "file": "g"}); fault != absent || fault == "" {
		t.Errorf("a stranger: %q, for what is absent %q", fault, absent)
	}
	if n := len(other.shells.live()); n != 0 {
		t.Errorf("the other node made %d sandboxes", n)
	}
	owner.server.Close()
	if _, fault := tool[ran](t, s, "run_code", obj{"language": "bash", "code": "true", "session_id": id}); !strings.HasPrefix(fault, "sandbox_unavailable") || strings.Contains(fault, owner.server.URL) {
		t.Errorf("a node that is down: %q", fault)
	}
}

func (r *rig) await(what string, f func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("waited in vain until %s\n%s", what, r.log)
		}
	}
}

// FuzzMCP: whatever a caller sends is answered, and is nobody's panic.
func FuzzMCP(f *testing.F) {
	for _, s := range []string{
		initialize, `[` + initialize + `]`, `{}`, `[]`, `null`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"session_id":"x","file":"y"}}}`,
		`{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	} {
		f.Add("", "", []byte(s))
		f.Add("2026-07-28", "x", []byte(s))
	}
	f.Fuzz(func(t *testing.T, version, session string, body []byte) {
		if strings.ContainsAny(version+session, "\r\n\x00") {
			t.Skip()
		}
		r := newMCP(t)
		q := r.request("POST", alice, mcp.Path, bytes.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		for name, v := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Session-Id": session} {
			if v != "" {
				q.Header.Set(name, v)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		res, err := r.server.Client().Do(q.WithContext(ctx))
		if err != nil {
			return // a header that the client does not send
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 500 || strings.Contains(r.log.String(), "panic") {
			t.Errorf("%d %s, %v\n%s", res.StatusCode, b, err, r.log)
		}
	})
}
