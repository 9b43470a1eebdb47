// Package clienttest drives published clients of the code API, as npm has them,
// against the server that `make build` wrote. It has no code of its own.
package clienttest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Names under which testdata/package.json installs the clients.
const (
	current = "@librechat/agents" // 3.9.2
	middle  = "agents-3.2.57"     // refs with session_id; puts the key into the body
	oldest  = "agents-3.0.50"     // lists a session's files itself, sends X-API-Key
)

// need ends the test with the reason why it cannot run: skipped where somebody
// tries a single package, failed where everything must be there.
func need(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CAISSON_CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// driver is a running testdata/driver.mjs. Its methods fail the test on
// anything but an answer; use them from one goroutine.
type driver struct {
	requests *json.Encoder
	answers  *bufio.Reader
	key      string
}

func startDriver(t *testing.T, s server) *driver {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		need(t, "node is missing: %v", err)
	}
	if _, err := os.Stat(filepath.FromSlash("testdata/node_modules/.installed")); err != nil {
		need(t, "the clients are not installed; run \"make clients\"")
	}
	answers, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// Importing three generations of a large package takes most of this time.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, node, "driver.mjs", s.url+"/v1")
	cmd.Dir = "testdata"
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.ExtraFiles = []*os.File{theirs}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err = errors.Join(err, theirs.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer cancel()
		if err := errors.Join(stdin.Close(), cmd.Wait(), answers.Close()); err != nil {
			t.Errorf("driver: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the clients:\n%s", &log)
		}
	})
	return &driver{json.NewEncoder(stdin), bufio.NewReader(answers), s.key}
}

// call performs one operation. It returns the error that the client gave, and
// decodes its result into result.
func (d *driver) call(t *testing.T, op string, request map[string]any, result any) error {
	t.Helper()
	request["op"] = op
	if request["key"] == nil {
		request["key"] = d.key
	}
	if err := d.requests.Encode(request); err != nil {
		t.Fatalf("driver: %v", err)
	}
	line, err := d.answers.ReadBytes('\n')
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it ended without an answer")
		}
		t.Fatalf("driver: %v", err)
	}
	var answer struct {
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatalf("driver: %v in %q", err, line)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		t.Fatalf("driver: %v in %q", err, line)
	}
	return nil
}

// file is a reference to a file as clients keep and inject it.
type file struct {
	ID               string `json:"id"`
	Name             string `json:"name"`
	StorageSessionID string `json:"storage_session_id,omitempty"`
	SessionID        string `json:"session_id,omitempty"`
	Kind             string `json:"kind,omitempty"`
	ResourceID       string `json:"resource_id,omitempty"`
	Inherited        bool   `json:"inherited,omitempty"`
}

// message is what a tool hands to the model (Content) and to the host (Artifact).
type message struct {
	Content  string
	Artifact struct {
		SessionID    string `json:"session_id"`
		Files        []file
		DeletedFiles []string `json:"deleted_files"`
	}
}

// made returns the names of the files that the run made or changed.
func (m message) made() []string {
	names := []string{}
	for _, f := range m.Artifact.Files {
		if !f.Inherited {
			names = append(names, f.Name)
		}
	}
	return names
}

// find returns the artifact of a name.
func (m message) find(t *testing.T, name string) file {
	t.Helper()
	for _, f := range m.Artifact.Files {
		if f.Name == name {
			if f.StorageSessionID == "" {
				f.StorageSessionID = m.Artifact.SessionID
			}
			return f
		}
	}
	t.Fatalf("no artifact %q in %+v", name, m.Artifact.Files)
	return file{}
}

// program is the arguments of the code tool.
type program struct {
	Lang      string   `json:"lang"`
	Code      string   `json:"code"`
	Args      []string `json:"args,omitempty"`
	SessionID string   `json:"session_id,omitempty"` // known to the oldest client only
}

// exec runs a program with the references that a host would inject.
func (d *driver) exec(t *testing.T, client string, p program, files ...file) message {
	t.Helper()
	m, err := d.tryExec(t, client, d.key, p, files...)
	if err != nil {
		t.Fatalf("exec: %v", err)
	}
	return m
}

func (d *driver) tryExec(t *testing.T, client, key string, p program, files ...file) (message, error) {
	t.Helper()
	extra := map[string]any{}
	if len(files) > 0 {
		extra["_injected_files"] = files
	}
	var m message
	err := d.call(t, "exec", map[string]any{"client": client, "key": key, "args": p, "extra": extra}, &m)
	return m, err
}

// download fetches a file as the host application does.
func (d *driver) download(t *testing.T, f file) (body []byte, headers map[string]string) {
	t.Helper()
	var reply struct {
		Status  int
		Headers map[string]string
		Base64  string
	}
	path := fmt.Sprintf("/download/%s/%s?kind=user&id=user-1", f.StorageSessionID, f.ID)
	if err := d.call(t, "get", map[string]any{"path": path}, &reply); err != nil {
		t.Fatalf("download %q: %v", f.Name, err)
	}
	body, err := base64.StdEncoding.DecodeString(reply.Base64)
	if err != nil || reply.Status != 200 {
		t.Fatalf("download %q: status %d, %v: %.200q", f.Name, reply.Status, err, body)
	}
	return body, reply.Headers
}
