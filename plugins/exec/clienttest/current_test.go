package clienttest

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// call is one call of a tool of the current client.
type call struct {
	bash       bool
	args       obj
	params     obj // of the tool's factory
	files      []file
	abortAfter int // milliseconds
}

func (d *driver) tool(t *testing.T, c call) (message, error) {
	t.Helper()
	request := obj{"client": current, "args": c.args, "params": c.params, "abortAfter": c.abortAfter, "extra": obj{}}
	if c.bash {
		request["tool"] = "bash"
	}
	if len(c.files) > 0 {
		request["extra"] = obj{"_injected_files": c.files}
	}
	var m message
	err := d.call(t, "exec", request, &m)
	return m, err
}

func bashTool(t *testing.T, d *driver) {
	up := upload(t, d, "in.txt", "b\na\n")
	m, err := d.tool(t, call{bash: true, args: obj{"command": `sort in.txt; printf '%s|' "$@"; echo made > out.txt`, "args": []string{"x y", "$z"}}, files: []file{up}})
	if err != nil || !strings.HasPrefix(m.Content, "stdout:\na\nb\nx y|$z|") || !slices.Equal(m.made(), []string{"out.txt"}) {
		t.Errorf("%v, %+v", err, m)
	}
	m, err = d.tool(t, call{bash: true, args: obj{"command": "cat '/mnt/data/nothing here'"}})
	if err != nil || !strings.Contains(m.Content, "stderr:\n") || !strings.Contains(strings.ToLower(m.Content), "no such file or directory") {
		t.Errorf("%v, %+v", err, m)
	}
}

// severalSessions injects what a host remembers of several runs and uploads at once.
func severalSessions(t *testing.T, d *driver) {
	one, two := upload(t, d, "one.txt", "1"), upload(t, d, "two.txt", "2")
	made := d.exec(t, current, program{Lang: "py", Code: `open("three.txt", "w").write("3")`}).find(t, "three.txt")
	m := d.exec(t, current, program{Lang: "py", Code: `
print(open("one.txt").read() + open("two.txt").read() + open("three.txt").read())
open("two.txt", "a").write("!")
import os; os.remove("three.txt")`}, one, two, made)
	if !strings.HasPrefix(m.Content, "stdout:\n123") || strings.Contains(m.Content, "stderr") {
		t.Fatalf("%q", m.Content)
	}
	if changed := m.find(t, "two.txt"); changed.ID == two.ID || changed.Inherited {
		t.Errorf("changed: %+v", changed)
	} else if body, _ := d.download(t, changed); string(body) != "2!" {
		t.Errorf("changed: %q", body)
	}
	// What is only read comes back as it was sent, owner and all.
	if same := m.find(t, "one.txt"); !same.Inherited || same.ID != one.ID || same.StorageSessionID != one.StorageSessionID || same.Kind != one.Kind || same.ResourceID != one.ResourceID {
		t.Errorf("%+v came back as %+v", one, same)
	}
	if !slices.Equal(m.Artifact.DeletedFiles, []string{"three.txt"}) {
		t.Errorf("deleted: %q", m.Artifact.DeletedFiles)
	}
	// A listing in the words of a scope.
	for _, scope := range []obj{{"kind": "user", "id": "user-1"}, {"kind": "skill", "id": "sk1", "version": 7}} {
		var listed []file
		err := d.call(t, "list", obj{"client": current, "session_id": one.StorageSessionID, "scope": scope}, &listed)
		there := slices.ContainsFunc(listed, func(f file) bool { return f.ID == one.ID && f.Name == one.Name })
		if err != nil || there != (scope["kind"] == "user") {
			t.Errorf("%v: %v, %+v", scope, err, listed)
		}
	}
}

// batches primes a skill and sends forms with and without a length.
func batches(t *testing.T, d *driver) {
	one := func(name, content string, known bool) obj {
		return obj{"name": name, "base64": base64.StdEncoding.EncodeToString([]byte(content)), "known": known}
	}
	for _, known := range []bool{false, true} {
		var reply struct {
			Status int
			Body   stored
		}
		err := d.call(t, "upload", obj{
			"path": "/upload/batch", "fields": obj{"kind": "skill", "id": "sk1", "version": "7", "read_only": "true"},
			"files": []any{one("demo/SKILL.md", "# demo", known), one("demo/run.py", "print('ran')", known), one(csvName, csv, known)},
		}, &reply)
		b := reply.Body
		if err != nil || reply.Status != 200 || b.Message != "success" || b.Succeeded != 3 || b.Files[0].Filename != "demo/SKILL.md" {
			t.Fatalf("%v, %+v", err, reply)
		}
		in := file{ID: b.Files[1].FileID, Name: "demo/run.py", StorageSessionID: b.StorageSessionID, Kind: "skill", ResourceID: "sk1"}
		m, err := d.tool(t, call{bash: true, args: obj{"command": "python3 demo/run.py"}, files: []file{in}})
		if err != nil || !strings.HasPrefix(m.Content, "stdout:\nran") || len(m.made()) != 0 {
			t.Errorf("%v, %+v", err, m)
		}
	}
}

// undelivered checks that the model is told of files that were lost to limits, which
// the client does only for counts that add up.
func undelivered(t *testing.T, d *driver) {
	m := d.exec(t, current, program{Lang: "py", Code: `for i in range(150): open(f"f{i}", "w").write("x")`})
	if len(m.made()) != 100 || !strings.Contains(m.Content, "50") || !strings.Contains(m.Content, "150") {
		t.Errorf("%d files, %q", len(m.made()), m.Content)
	}
}

// capabilities asks for what this server is not: the model is told not to try again.
func capabilities(t *testing.T, d *driver) {
	code := obj{"lang": "py", "code": "print(1)"}
	if m, err := d.tool(t, call{args: code, params: obj{"executionProfile": "default", "runtimeSessionHint": "conv-42"}}); err != nil || !strings.HasPrefix(m.Content, "stdout:\n1") {
		t.Errorf("the default profile: %v, %+v", err, m)
	}
	m, err := d.tool(t, call{args: code, params: obj{"executionProfile": "stateful", "statefulSessions": true}})
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "do not retry") {
		t.Errorf("the stateful profile: %v, %+v", err, m)
	}
}

// abort hangs up on a run: it stops, and its session goes on.
func abort(t *testing.T, d *driver) {
	first := d.exec(t, current, program{Lang: "py", Code: `open("n", "w").write("0")`})
	_, err := d.tool(t, call{
		args:  obj{"lang": "py", "code": "import time\nfor i in range(600):\n open('n', 'w').write(str(i))\n time.sleep(0.1)"},
		files: first.Artifact.Files, abortAfter: 1500,
	})
	if err == nil {
		t.Fatal("the aborted call has a result")
	}
	read := program{Lang: "py", Code: `import time; a = open("n").read(); time.sleep(0.5); print(a == open("n").read())`}
	if m := d.exec(t, current, read, first.Artifact.Files...); !strings.HasPrefix(m.Content, "stdout:\nTrue") || m.Artifact.SessionID != first.Artifact.SessionID {
		t.Errorf("%+v", m)
	}
}

// patientClient reads an answer with white space in front.
func patientClient(t *testing.T, d *driver) {
	m := d.exec(t, current, program{Lang: "py", Code: `import time; time.sleep(7); open("late.txt", "w").write("x"); print("done")`})
	if !strings.HasPrefix(m.Content, "stdout:\ndone") || !slices.Equal(m.made(), []string{"late.txt"}) {
		t.Errorf("%+v", m)
	}
}

// TestClientWaits has the client wait for a long run, and then floods the server, which
// runs one program at a time: the model is told when to try again.
func TestClientWaits(t *testing.T) {
	config := filepath.Join(t.TempDir(), "caisson.yaml")
	if err := os.WriteFile(config, []byte("queue: {running: 1, waiting: 1, tenant_running: 1, tenant_waiting: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDriver(t, startServer(t, "--config", config))
	t.Run("long run", func(t *testing.T) { patientClient(t, d) })
	var all []struct{ Content, Error string }
	err := d.call(t, "flood", obj{"client": current, "times": 6, "args": obj{"lang": "py", "code": "import time; time.sleep(1); print('ran')"}}, &all)
	if err != nil {
		t.Fatal(err)
	}
	ran, told := 0, 0
	for _, a := range all {
		switch {
		case strings.HasPrefix(a.Content, "stdout:\nran"):
			ran++
		case strings.Contains(a.Error, "Retry after") && strings.Contains(a.Error, "second"):
			told++
		default:
			t.Errorf("%+v", a)
		}
	}
	if ran < 1 || told < 1 {
		t.Errorf("%d ran, %d were told to wait", ran, told)
	}
}
