package clienttest

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the current client tells the model when a request is refused.
const (
	rejected      = "The code execution request was rejected."
	notAuthorized = "Code execution is not authorized."
)

// idRule is what the host application's download route lets pass.
var idRule = regexp.MustCompile(`^[A-Za-z0-9_-]{21}$`)

// TestLibreChatClient drives the current client, and two generations that
// deployments in the wild still run, against one server: with the embedded backend,
// and with remote ones on fake providers.
func TestLibreChatClient(t *testing.T) {
	for _, backend := range []string{"embedded", "e2b", "cube"} {
		t.Run(backend, func(t *testing.T) {
			var args []string
			if backend != "embedded" {
				args = []string{"--config", remoteConfig(t, backend)}
			}
			d := startDriver(t, startServer(t, args...))
			t.Run("3.9.2", func(t *testing.T) { currentClient(t, d) })
			t.Run("3.2.57", func(t *testing.T) { middleClient(t, d) })
			t.Run("3.0.50", func(t *testing.T) { oldestClient(t, d) })
		})
	}
}

func currentClient(t *testing.T, d *driver) {
	t.Run("languages", func(t *testing.T) {
		for lang, code := range map[string]string{
			"py": `import sys; print("hello from", "py", sys.argv[1:])`,
			"js": `console.log("hello from", "js", JSON.stringify(process.argv.slice(2)))`,
		} {
			m := d.exec(t, current, program{Lang: lang, Code: code, Args: []string{"a b", "$(id)", `'"`}})
			if !strings.HasPrefix(m.Content, "stdout:\nhello from "+lang) || strings.Contains(m.Content, "stderr") {
				t.Errorf("%s answers %q", lang, m.Content)
			}
			for _, arg := range []string{"a b", "$(id)"} {
				if !strings.Contains(m.Content, arg) {
					t.Errorf("%s: argument %q is not in %q", lang, arg, m.Content)
				}
			}
			if !idRule.MatchString(m.Artifact.SessionID) {
				t.Errorf("%s: session id %q", lang, m.Artifact.SessionID)
			}
		}
	})

	t.Run("upload, run, download", func(t *testing.T) { uploadRunDownload(t, d) })

	t.Run("failed program", func(t *testing.T) {
		m := d.exec(t, current, program{
			Lang: "py",
			Code: `import sys; open("kept.txt", "w").write("kept"); print("bad input", file=sys.stderr); sys.exit(3)`,
		})
		if !strings.Contains(m.Content, "stderr:\nbad input") {
			t.Errorf("the model does not see stderr: %q", m.Content)
		}
		if body, _ := d.download(t, m.find(t, "kept.txt")); string(body) != "kept" {
			t.Errorf("downloaded %q", body)
		}
	})

	t.Run("refusals", func(t *testing.T) {
		// The client checks the language against its own list first: f90 is on it.
		if m, err := d.tryExec(t, current, d.key, program{Lang: "f90", Code: "end"}); err == nil || !strings.Contains(err.Error(), rejected) {
			t.Errorf("a language that the backend lacks: %v, %+v", err, m)
		}
		if m, err := d.tryExec(t, current, "wrong", program{Lang: "py", Code: "print(1)"}); err == nil || !strings.Contains(err.Error(), notAuthorized) {
			t.Errorf("a wrong key: %v, %+v", err, m)
		}
	})

	t.Run("tool node", func(t *testing.T) { toolNode(t, d) })
	t.Run("bash", func(t *testing.T) { bashTool(t, d) })
	t.Run("files of several sessions", func(t *testing.T) { severalSessions(t, d) })
	t.Run("batches", func(t *testing.T) { batches(t, d) })
	t.Run("what cannot be delivered", func(t *testing.T) { undelivered(t, d) })
	t.Run("capabilities", func(t *testing.T) { capabilities(t, d) })
	t.Run("abort", func(t *testing.T) { abort(t, d) })
}

const csv = "city,temp\nOslo,3\nMálaga,21\n"

// csvName has what hosts send raw in a header: spaces, quotes, several scripts.
const csvName = `my données 数据 "q".csv`

// upload sends one file as the host application does, and returns the reference
// that the host would inject.
func upload(t *testing.T, d *driver, name, content string) file {
	t.Helper()
	var reply struct {
		Status int
		Body   struct {
			Message          string
			SessionID        string `json:"session_id"`
			StorageSessionID string `json:"storage_session_id"`
			Files            []struct{ FileID, Filename string }
		}
	}
	err := d.call(t, "upload", map[string]any{
		"path":   "/upload",
		"fields": map[string]string{"kind": "user", "id": "user-1"},
		"files":  []any{map[string]string{"name": name, "base64": base64.StdEncoding.EncodeToString([]byte(content))}},
	}, &reply)
	body := reply.Body
	if err != nil || reply.Status != 200 || body.Message != "success" || len(body.Files) != 1 {
		t.Fatalf("upload: %v, %+v", err, reply)
	}
	if body.SessionID != body.StorageSessionID || !idRule.MatchString(body.SessionID) || !idRule.MatchString(body.Files[0].FileID) {
		t.Errorf("upload: ids in %+v", body)
	}
	return file{
		ID: body.Files[0].FileID, Name: name, StorageSessionID: body.StorageSessionID,
		Kind: "user", ResourceID: "user-1",
	}
}

func uploadRunDownload(t *testing.T, d *driver) {
	input := upload(t, d, csvName, csv)
	if body, _ := d.download(t, input); string(body) != csv {
		t.Errorf("the upload comes back as %q", body)
	}

	first := d.exec(t, current, program{Lang: "py", Code: `
import csv, os
name = ` + "'" + csvName + "'" + `
rows = list(csv.DictReader(open(name, encoding="utf-8")))
print(max(rows, key=lambda r: int(r["temp"]))["city"])
os.makedirs("out", exist_ok=True)
open("out/table.bin", "wb").write(bytes(range(256)) * 5)
open("empty.txt", "w").close()
`}, input)
	if !strings.HasPrefix(first.Content, "stdout:\nMálaga") || strings.Contains(first.Content, "stderr") {
		t.Fatalf("the program answers %q", first.Content)
	}
	if got := first.made(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"empty.txt", "out/table.bin"}) {
		t.Errorf("the run announces %q", got)
	}
	if !strings.Contains(first.Content, "Session files: 2 persisted file(s)") {
		t.Errorf("the model is told %q", first.Content)
	}

	table := first.find(t, "out/table.bin")
	body, headers := d.download(t, table)
	var want []byte
	for range 5 {
		for b := range 256 {
			want = append(want, byte(b))
		}
	}
	if !bytes.Equal(body, want) {
		t.Errorf("downloaded %d bytes that differ from the %d written", len(body), len(want))
	}
	if !strings.HasPrefix(headers["content-disposition"], "attachment") || headers["x-content-type-options"] != "nosniff" {
		t.Errorf("a browser could show the download: %q", headers)
	}

	var listed []file
	if err := d.call(t, "list", map[string]any{"client": current, "session_id": first.Artifact.SessionID}, &listed); err != nil {
		t.Fatal(err)
	}
	for _, want := range []file{table, first.find(t, "empty.txt")} {
		if !slices.ContainsFunc(listed, func(f file) bool {
			return f.ID == want.ID && f.Name == want.Name && f.StorageSessionID == want.StorageSessionID
		}) {
			t.Errorf("%+v is not listed in %+v", want, listed)
		}
	}

	// The references of the first run reach its files; only the new file is news.
	second := d.exec(t, current, program{Lang: "py", Code: `
print(len(open("out/table.bin", "rb").read()))
open("more.txt", "w").write("more")
`}, append(first.Artifact.Files, input)...)
	if !strings.HasPrefix(second.Content, "stdout:\n1280") || strings.Contains(second.Content, "stderr") {
		t.Errorf("the second program answers %q", second.Content)
	}
	if got := second.made(); !slices.Equal(got, []string{"more.txt"}) {
		t.Errorf("the second run announces %q", got)
	}

	// A file changed in place is news again, under a new id.
	third := d.exec(t, current, program{Lang: "py", Code: `open("out/table.bin", "ab").write(b"!")`}, second.Artifact.Files...)
	changed := third.find(t, "out/table.bin")
	if got := third.made(); !slices.Equal(got, []string{"out/table.bin"}) || changed.ID == table.ID {
		t.Errorf("the third run announces %q, id %q after %q", got, changed.ID, table.ID)
	}
	if body, _ := d.download(t, changed); !bytes.Equal(body, append(want, '!')) {
		t.Errorf("downloaded %d bytes of the changed file", len(body))
	}
}

// toolNode leaves sessions to the client's own memory.
func toolNode(t *testing.T, d *driver) {
	input := upload(t, d, "numbers.txt", "1 2 3")
	if err := d.call(t, "attach", map[string]any{"session_id": input.StorageSessionID, "files": []file{input}}, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	turn := func(p program) (m message) {
		t.Helper()
		if err := d.call(t, "turn", map[string]any{"client": current, "args": p}, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	first := turn(program{Lang: "py", Code: `open("sum.txt", "w").write(str(sum(map(int, open("numbers.txt").read().split()))))`})
	if got := first.made(); !slices.Equal(got, []string{"sum.txt"}) {
		t.Fatalf("the first turn announces %q: %s", got, first.Content)
	}
	second := turn(program{Lang: "js", Code: `
const fs = require("fs");
console.log(fs.readFileSync("sum.txt", "utf8"), fs.readFileSync("/mnt/data/numbers.txt", "utf8"));`})
	if !strings.HasPrefix(second.Content, "stdout:\n6 1 2 3") || len(second.made()) != 0 {
		t.Errorf("the second turn answers %q and announces %q", second.Content, second.made())
	}
	if first.Artifact.SessionID != second.Artifact.SessionID {
		t.Errorf("the turns ran in sessions %q and %q", first.Artifact.SessionID, second.Artifact.SessionID)
	}
}

// What each older generation is asked to do.
const (
	makeFile = `open("made.txt", "w").write("made"); print("done")`
	readFile = `print(open("made.txt").read())`
)

func middleClient(t *testing.T, d *driver) {
	first := d.exec(t, middle, program{Lang: "py", Code: makeFile})
	made := first.find(t, "made.txt")
	// This generation refers to files by session_id.
	ref := file{ID: made.ID, Name: made.Name, SessionID: made.StorageSessionID}
	second := d.exec(t, middle, program{Lang: "py", Code: readFile}, ref)
	if !strings.HasPrefix(second.Content, "stdout:\nmade") || len(second.made()) != 0 {
		t.Errorf("the second run answers %q and announces %q", second.Content, second.made())
	}
	// It shows the model the whole body of a refusal.
	_, err := d.tryExec(t, middle, "not-the-key", program{Lang: "py", Code: makeFile})
	if err == nil || !strings.Contains(err.Error(), "returned 401") || strings.Contains(err.Error(), "not-the-key") {
		t.Errorf("a wrong key: %v", err)
	}
}

func oldestClient(t *testing.T, d *driver) {
	first := d.exec(t, oldest, program{Lang: "py", Code: makeFile})
	if !strings.Contains(first.Content, "- /mnt/data/made.txt |") || !strings.Contains(first.Content, "session_id: "+first.Artifact.SessionID) {
		t.Errorf("the first run answers %q", first.Content)
	}
	// Given a session, it asks for its files and sends them as references.
	second := d.exec(t, oldest, program{Lang: "py", Code: readFile, SessionID: first.Artifact.SessionID})
	if !strings.HasPrefix(second.Content, "stdout:\nmade") {
		t.Errorf("the second run answers %q", second.Content)
	}
}
