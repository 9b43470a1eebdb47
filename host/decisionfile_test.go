package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// What is no file of ours to append to is refused at once: requests would wait for it.
func TestDecisionFileRefuses(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	unread := filepath.Join(dir, "unread")
	if err := syscall.Mkfifo(unread, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a pipe": pipe, "a pipe that nobody reads": unread, "a directory": dir, "a device": "/dev/full", "nowhere": filepath.Join(dir, "absent", "f"),
	} {
		if _, err := openDecisions(path, hclog.NewNullLogger()); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
}

// decide records a decision about an organisation.
func decide(ds *decisions, org string) { ds.record(&Decision{Request: policy.Request{Org: org}}) }

// orgs reads a file of decisions, every line of which is one.
func orgs(t *testing.T, path string) (out []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var d Decision
		if err := json.Unmarshal(line, &d); err != nil {
			out = append(out, "torn")
			continue
		}
		out = append(out, d.Request.Org)
	}
	return out
}

func TestDecisionFileIsOpenedAgain(t *testing.T) {
	dir := t.TempDir()
	path, old := filepath.Join(dir, "log"), filepath.Join(dir, "log.1")
	var said bytes.Buffer
	ds, err := openDecisions(path, hclog.New(&hclog.LoggerOptions{Output: &said}))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(path, want string) {
		t.Helper()
		if got := strings.Join(orgs(t, path), " "); got != want {
			t.Errorf("%s holds %q, want %q", filepath.Base(path), got, want)
		}
	}
	decide(ds, "a")
	if err := os.Rename(path, old); err != nil {
		t.Fatal(err)
	}
	decide(ds, "b")
	ds.reopen()
	decide(ds, "c")
	expect(old, "a b")
	expect(path, "c")

	// One that cannot be written says so once, and goes on after a reload.
	full := errors.Join(ds.file.file.Close(), os.WriteFile(path, []byte("{\"at\":"), 0o600)) // as a full disk leaves it
	if full != nil {
		t.Fatal(full)
	}
	decide(ds, "lost")
	decide(ds, "lost")
	if _, err := ds.last(1); err == nil || strings.Count(said.String(), "not written any more") != 1 {
		t.Errorf("%v, log %q", err, said.String())
	}
	ds.file.file, err = os.OpenFile(path, os.O_WRONLY, 0) // what it had open is this file
	if err != nil {
		t.Fatal(err)
	}
	ds.reopen()
	decide(ds, "d")
	decide(ds, "e")
	expect(path, "torn d e")
	if _, err := ds.last(1); err != nil {
		t.Error(err)
	}

	// What cannot be opened again leaves what is open.
	if err := errors.Join(os.Rename(path, old), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	ds.reopen()
	decide(ds, "f")
	expect(old, "torn d e f")
	if !strings.Contains(said.String(), "cannot be opened again") {
		t.Errorf("log %q", said.String())
	}
	if err := errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o644), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	ds.reopen()
	if !strings.Contains(said.String(), "others than its owner may open") {
		t.Errorf("log %q", said.String())
	}
	if err := ds.close(); err != nil {
		t.Error(err)
	}
}
