package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Commands that call a server: files, run --url and mcp.
func TestRemote(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles interpreters")
	}
	t.Parallel()
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
	s := p.serve(t).ready(t)
	defer s.stop(t)
	p.dir = t.TempDir()
	url := "--url=" + s.url

	r := p.run(t, "", "files", "put", url, "--json", write(t, "a.csv", "1,2\n")+"=in/a.csv", write(t, "b.txt", "bee"))
	var stored []struct {
		Session string `json:"session_id"`
		ID      string
		Name    string
		Size    int64
	}
	for line := range strings.Lines(r.stdout) {
		stored = append(stored, struct {
			Session string `json:"session_id"`
			ID      string
			Name    string
			Size    int64
		}{})
		if err := json.Unmarshal([]byte(line), &stored[len(stored)-1]); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	if r.code != 0 || len(stored) != 2 || stored[0].Name != "in/a.csv" || stored[1].Size != 3 || stored[0].Session != stored[1].Session {
		t.Fatalf("put: %+v", r)
	}
	session := stored[0].Session
	if r = p.run(t, "", "files", "list", url, session); r.code != 0 || !strings.Contains(r.stdout, stored[0].ID) || !strings.Contains(r.stdout, "in/a.csv") {
		t.Errorf("list: %+v", r)
	}
	if r = p.run(t, "", "files", "get", url, "--out", "-", session, "in/a.csv"); r.code != 0 || r.stdout != "1,2\n" {
		t.Errorf("get by path: %+v", r)
	}
	if r = p.run(t, "", "files", "get", url, session, stored[1].ID); r.code != 0 {
		t.Errorf("get by id: %+v", r)
	}
	if b, err := os.ReadFile(filepath.Join(p.dir, "b.txt")); err != nil || string(b) != "bee" {
		t.Errorf("saved: %q, %v", b, err)
	}
	if r = p.run(t, "", "files", "get", url, session, "b.txt"); r.code != 1 || !strings.Contains(r.stderr, "exists already") {
		t.Errorf("over a file: %+v", r)
	}
	if r = p.run(t, "", "files", "get", url, session, "none"); r.code != 1 || !strings.Contains(r.stderr, "no such file") {
		t.Errorf("no file: %+v", r)
	}

	out := filepath.Join(p.dir, "out")
	r = p.run(t, "import sys; print(open('x').read(), sys.argv[1:]); open('made', 'w').write('m'); sys.exit(5)",
		"run", url, "--lang", "py", "--out", out, "--file", write(t, "x", "ex"), "-", "--lang", "a")
	if r.code != 5 || r.stdout != "ex ['--lang', 'a']\n" || !strings.Contains(r.stderr, "saved ") {
		t.Errorf("run: %+v", r)
	}
	if b, err := os.ReadFile(filepath.Join(out, "made")); err != nil || string(b) != "m" {
		t.Errorf("saved: %q, %v", b, err)
	}
	r = p.run(t, "print(1)", "run", url, "--lang", "py", "--json", "-")
	if a := decode(t, r.stdout); r.code != 0 || a.Stdout != "1\n" {
		t.Errorf("run --json: %+v", r)
	}
	if r = p.run(t, "x", "run", url, "--lang", "cobol", "-"); r.code != 1 || !strings.Contains(r.stderr, "400 unsupported_language") {
		t.Errorf("a refusal: %+v", r)
	}
	bare := p
	bare.env = p.env[:len(p.env)-1]
	if r = bare.run(t, "", "files", "list", url, session); r.code != 1 || !strings.Contains(r.stderr, "there is no credential") {
		t.Errorf("without a key: %+v", r)
	}

	// The protocol over standard streams, which lines that are no messages do not end.
	input := strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{bad json`, `[]`, `{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":"` + strings.Repeat("x", 17<<20) + `"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"ping"}`, "",
	}, "\n")
	if out := p.answers(t, input, `"id":3,"result"`, "mcp", url); strings.Count(out, `"id":null,"error":{"code":-32700`) != 2 || strings.Count(out, `"code":-32600`) != 1 {
		t.Errorf("lines that are no messages: %s", out)
	}
	cmd := p.command(t.Context(), "mcp", url)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "read_file", Arguments: map[string]any{"session_id": session, "file": "b.txt"}})
	if err != nil || res.IsError || !strings.Contains(res.Content[0].(*sdk.TextContent).Text, `"bee"`) {
		t.Errorf("%+v, %v", res, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A client that was published drives the protocol over both transports.
func TestMCPClient(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles interpreters")
	}
	node, err := exec.LookPath("node")
	script, _ := filepath.Abs("../../../../plugins/exec/clienttest/testdata/mcp.mjs")
	if _, missing := os.Stat(filepath.Join(filepath.Dir(script), "node_modules", "@modelcontextprotocol")); err != nil || missing != nil {
		if os.Getenv("CAISSON_CI") != "" {
			t.Fatal("node or the published client is missing; run make clients")
		}
		t.Skip("node or the published client is missing; run make clients")
	}
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
	s := p.serve(t).ready(t)
	defer s.stop(t)
	for _, transport := range []string{"http", "stdio"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, node, script, transport, s.url, binary)
		cmd.Env = p.env
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != "ok\n" {
			t.Errorf("%s: %v\n%s", transport, err, out)
		}
	}
}

// A client of the protocol that listens does not keep the server from stopping.
func TestStopsBesideListeners(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles interpreters")
	}
	p := newPlace(t, "CODE_EXEC_API_KEY="+testKey)
	s := p.serve(t, "--config", write(t, "caisson.yaml", "drain: 1h\n")).ready(t)
	c, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: s.url + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: keyed{}},
	}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := c.ListTools(t.Context(), nil); err != nil || len(res.Tools) == 0 {
		t.Errorf("%+v, %v", res, err)
	}
	s.stop(t)
	_ = c.Close() // the server has ended the session
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// keyed sends the tests' key.
type keyed struct{}

func (keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-API-Key", testKey)
	return http.DefaultTransport.RoundTrip(r)
}

// answers has a command read input and returns what it answers up to a line that has
// last; then its input ends, and it has to.
func (p place) answers(t *testing.T, input, last string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := p.command(ctx, args...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(stdin, input)
		written <- err
	}()
	var all strings.Builder
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), last) {
			break
		}
	}
	if err := errors.Join(<-written, stdin.Close(), cmd.Wait()); err != nil || !strings.Contains(all.String(), last) {
		t.Errorf("%q ended with %v and answered %s", args, err, all.String())
	}
	return all.String()
}
