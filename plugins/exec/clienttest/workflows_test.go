package clienttest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestWorkflows is what servers of this contract test themselves with, end to end.
func TestWorkflows(t *testing.T) { runWorkflows(t, startServer(t)) }

func runWorkflows(t *testing.T, s server) {
	for _, w := range []struct {
		name string
		run  func(*testing.T, server)
	}{
		{"runs", runWorkflow},
		{"files", fileWorkflow},
		{"edits of mounted files", editWorkflow},
		{"files at once", concurrentFiles},
		{"generated artifacts", artifactWorkflow},
		{"bash", bashWorkflow},
		{"helpers of the host application", helperWorkflow},
		{"skills", skillWorkflow},
		{"replay of recorded requests", replay},
		{"forms", forms},
		{"several requests on one connection", pipelined},
	} {
		t.Run(w.name, func(t *testing.T) { w.run(t, s) })
	}
}

func runWorkflow(t *testing.T, s server) {
	first := s.run(t, "py", "import sys\nprint('out')\nprint('err', file=sys.stderr)")
	if first.Stdout != "out\n" || first.Stderr != "err\n" || *first.Code != 0 || first.Status != nil || first.Message != nil || len(first.Files) != 0 {
		t.Errorf("%+v", first)
	}
	// A syntax error, an exception and an exit status are results.
	for code, want := range map[string]string{"print(": "SyntaxError", "1/0": "ZeroDivisionError", "raise SystemExit(7)": "[sandbox] Exited with code 7 and no output"} {
		if res := s.run(t, "py", code); *res.Code == 0 || !strings.Contains(res.Stderr, want) {
			t.Errorf("%s: %+v", code, res)
		}
	}
	// Variables end with the run, files and the session stay.
	id := s.run(t, "py", "x = 1\nopen('x', 'w').write('1')").SessionID
	res := s.run(t, "py", "print(open('x').read(), 'x' in globals())", obj{"session_id": id})
	if res.Stdout != "1 False\n" || res.SessionID != id {
		t.Errorf("%+v", res)
	}
	// Each language reads what another wrote.
	for lang, code := range map[string]string{
		"js":   `console.log(require("fs").readFileSync("x", "utf8"))`,
		"ts":   `const n: string = require("fs").readFileSync("x", "utf8"); console.log(n)`,
		"bash": "cat x; echo",
	} {
		if res := s.run(t, lang, code, obj{"session_id": id}); res.Stdout != "1\n" {
			t.Errorf("%s: %+v", lang, res)
		}
	}
}

func fileWorkflow(t *testing.T, s server) {
	up := s.upload(t, fileNamed("data.csv", "a,b\n1,2\n"), fileNamed("notes/read me.md", "# Hi"))
	if up.Message != "success" || up.SessionID != up.StorageSessionID || len(up.Files) != 2 {
		t.Fatalf("%+v", up)
	}
	in := []ref{up.ref(0, "data.csv"), up.ref(1, "notes/read me.md")}
	res := s.run(t, "py", "import csv\nprint(sum(int(r['b']) for r in csv.DictReader(open('data.csv'))))\nprint(open('/mnt/data/notes/read me.md').read())", obj{"files": in})
	if res.Stdout != "2\n# Hi\n" || res.names() != "(data.csv) (notes/read me.md)" {
		t.Errorf("%+v", res)
	}
	at := "/v1/download/" + up.SessionID + "/" + in[0].ID
	whole := s.get(t, at)
	if whole.body != "a,b\n1,2\n" || whole.header.Get("Content-Type") != "text/csv" || whole.header.Get("Etag") == "" {
		t.Errorf("%v %q", whole.header, whole.body)
	}
	for _, q := range []struct {
		header, value string
		status        int
		body          string
	}{
		{"Range", "bytes=4-6", 206, "1,2"},
		{"Range", "bytes=-2", 206, "2\n"},
		{"If-None-Match", whole.header.Get("Etag"), 304, ""},
		{"If-None-Match", `"another"`, 200, whole.body},
		{"If-Match", `"another"`, 412, ""},
		{"If-Modified-Since", "Fri, 02 Jan 2099 03:04:05 GMT", 304, ""},
	} {
		r := s.send(t, "GET", at, map[string]string{q.header: q.value}, nil)
		if r.status != q.status || q.status != 412 && r.body != q.body {
			t.Errorf("%s: %s: %d %q", q.header, q.value, r.status, r.body)
		}
	}
	r := s.send(t, "GET", at, map[string]string{"Range": "bytes=4-6", "If-Range": `"another"`}, nil)
	if r.status != 200 || r.body != whole.body {
		t.Errorf("a range of another version: %d %q", r.status, r.body)
	}
	l := into[[]obj](t, s.get(t, "/v1/files/"+up.SessionID+"?detail=full"), 200)
	if len(l) != 2 {
		t.Errorf("%v", l)
	}
	o := into[obj](t, s.get(t, "/v1/sessions/"+up.SessionID+"/objects/"+in[1].ID), 200)
	if o["originalFilename"] != "notes/read me.md" || o["size"] != 4.0 || o["contentType"] != "text/markdown" || o["readOnly"] != false || o["name"] != up.SessionID+"/"+in[1].ID {
		t.Errorf("%v", o)
	}
	if r := s.send(t, "DELETE", "/v1/sessions/"+up.SessionID+"/objects/"+in[0].ID, nil, nil); r.status != 204 {
		t.Errorf("DELETE: %d", r.status)
	}
	if l := into[[]obj](t, s.get(t, "/v1/files/"+up.SessionID), 200); len(l) != 1 {
		t.Errorf("%v", l)
	}
	// What was deleted is an input that is missing, and nothing worse.
	if res := s.run(t, "bash", "ls", obj{"files": in[:1]}); res.Stderr != unavailable+"data.csv\n" {
		t.Errorf("%+v", res)
	}
}

func editWorkflow(t *testing.T, s server) {
	up := s.upload(t, fileNamed("a.txt", "one\n"), fileNamed("b.txt", "two\n"), fileNamed("c.txt", "three\n"))
	in := []ref{up.ref(0, "a.txt"), up.ref(1, "b.txt"), up.ref(2, "c.txt")}
	res := s.run(t, "bash", "echo more >> a.txt; rm b.txt; touch c.txt; cp c.txt d.txt", obj{"files": in})
	a := res.file(t, "a.txt")
	if a.ModifiedFrom == nil || a.ModifiedFrom.ID != in[0].ID || a.Inherited || s.download(t, a) != "one\nmore\n" {
		t.Errorf("changed: %+v", a)
	}
	// To touch a file is no change; a copy is a file of its own.
	if c, d := res.file(t, "c.txt"), res.file(t, "d.txt"); !c.Inherited || c.ID != in[2].ID || d.Inherited || d.ModifiedFrom != nil {
		t.Errorf("touched: %+v, copied: %+v", c, d)
	}
	if !slices.Equal(res.DeletedFiles, []string{"b.txt"}) || slices.ContainsFunc(res.Files, func(f ref) bool { return f.Name == "b.txt" }) {
		t.Errorf("deleted: %q, files %+v", res.DeletedFiles, res.Files)
	}
	// Made or changed first, inherited last, no name twice.
	if got := res.names(); got != "a.txt d.txt (c.txt)" {
		t.Errorf("files are %s", got)
	}
	// The new version is what the next turn injects.
	again := s.run(t, "bash", "echo last >> a.txt; cat a.txt", obj{"files": res.Files})
	if b := again.file(t, "a.txt"); again.Stdout != "one\nmore\nlast\n" || b.ModifiedFrom == nil || b.ModifiedFrom.ID != a.ID || b.ID == a.ID {
		t.Errorf("%+v", again)
	}
	// Replaced by a rename, as editors do; and changed without changing its size or time.
	third := s.run(t, "py", `
import os
s = os.stat("c.txt")
with open("c.txt", "r+") as f: f.write("THREE")
os.utime("c.txt", ns=(s.st_atime_ns, s.st_mtime_ns))
open("a.tmp", "w").write("renamed")
os.replace("a.tmp", "a.txt")
`, obj{"files": again.Files})
	for name, want := range map[string]string{"c.txt": "THREE\n", "a.txt": "renamed"} {
		if f := third.file(t, name); f.Inherited || f.ModifiedFrom == nil || s.download(t, f) != want {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func concurrentFiles(t *testing.T, s server) {
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() {
			content := fmt.Sprintf("content %d", n)
			up := s.upload(t, fileNamed("same.txt", content))
			res := s.run(t, "py", "t = open('same.txt').read()\nopen('out.txt', 'w').write(t.upper())\nprint(t)", obj{"files": []ref{up.ref(0, "same.txt")}})
			if res.Stdout != content+"\n" || s.download(t, res.file(t, "out.txt")) != strings.ToUpper(content) {
				t.Errorf("%d: %+v", n, res)
			}
		})
	}
	wg.Wait()
	// And of one session: every run sees all files of those before it.
	id := s.run(t, "bash", "mkdir d").SessionID
	for n := range 6 {
		wg.Go(func() {
			if res := s.run(t, "bash", fmt.Sprintf("echo %d > d/f%d", n, n), obj{"session_id": id}); len(res.Files) != 1 || res.Files[0].Name != fmt.Sprintf("d/f%d", n) {
				t.Errorf("%d: %+v", n, res)
			}
		})
	}
	wg.Wait()
	if l := into[[]obj](t, s.get(t, "/v1/files/"+id), 200); len(l) != 6 {
		t.Errorf("%d files: %v", len(l), l)
	}
}

func artifactWorkflow(t *testing.T, s server) {
	res := s.run(t, "py", `
import json, os, struct, zipfile, zlib
os.makedirs("reports/2026")
open("reports/2026/données.csv", "w", encoding="utf-8").write("é\n")
json.dump({"a": 1}, open("a.json", "w"))
with zipfile.ZipFile("all.zip", "w") as z: z.writestr("x", "y")
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
open("dot.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b""))
open("page.html", "w").write("<script>alert(1)</script>")
open("all.bin", "wb").write(bytes(range(256)) * 4096)
os.makedirs("__pycache__"); open("__pycache__/x.pyc", "w"); os.makedirs("empty")
`)
	want := map[string]string{
		"reports/2026/données.csv": "text/csv", "a.json": "application/json", "all.zip": "application/zip", "dot.png": "image/png",
		"page.html": "text/html", "all.bin": "application/octet-stream",
	}
	if len(res.Files) != len(want) || res.Stderr != "" {
		t.Errorf("%+v", res)
	}
	for name, contentType := range want {
		f := res.file(t, name)
		r := s.get(t, "/v1/download/"+f.StorageSessionID+"/"+f.ID)
		if r.status != 200 || int64(len(r.body)) != f.Size || f.ContentType != contentType || r.header.Get("Content-Type") != contentType ||
			!strings.HasPrefix(r.header.Get("Content-Disposition"), "attachment;") || r.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v, %+v", name, r.status, r.header, f)
		}
	}
	var all []byte
	for range 4096 {
		for b := range 256 {
			all = append(all, byte(b))
		}
	}
	if got := s.download(t, res.file(t, "all.bin")); sha256.Sum256([]byte(got)) != sha256.Sum256(all) {
		t.Errorf("%d bytes that differ", len(got))
	}
	// Old times and names below new directories hide nothing.
	old := s.run(t, "py", "import os, zipfile\nzipfile.ZipFile('all.zip').extractall('u')\nos.utime('u/x', (1, 1))", obj{"files": res.Files})
	if f := old.file(t, "u/x"); f.Inherited || s.download(t, f) != "y" {
		t.Errorf("%+v", f)
	}
}

func bashWorkflow(t *testing.T, s server) {
	res := s.run(t, "bash", `
set -euo pipefail
declare -a list=(c a b)
declare -A map=([one]=1 [two]=2)
printf '%s\n' "${list[@]}" | sort | tr '\n' ' '
[[ "${list[0]}" =~ ^c$ && ${#map[@]} -eq 2 ]] && echo "match $((map[two] ** 3))"
while read -r x; do echo "read $x"; done < <(seq 2)
cat <<'EOF' | sed 's/world/there/' | awk '{print $2, $1}'
hello world
EOF
f() { local x=$1; echo "${x^^} ${x%.*} ${x##*.}"; }
f file.tar.gz
x=$(echo sub; exit 3) || echo "status $?"
mkdir -p d && echo '{"a":[1,2]}' > d/j.json && find . -name '*.json' | xargs cat
{ sleep 0.1; echo back > d/bg; } & wait; cat d/bg
trap 'echo bye' EXIT
`)
	const want = "a b c match 8\nread 1\nread 2\nthere hello\nFILE.TAR.GZ file.tar gz\nstatus 3\n{\"a\":[1,2]}\nback\nbye\n"
	if res.Stdout != want || res.Stderr != "" || *res.Code != 0 || res.names() != "d/bg d/j.json" {
		t.Errorf("%+v\nstdout %q\n  want %q", res, res.Stdout, want)
	}
	if res := s.run(t, "bash", "nosuchcommand; exit 4"); *res.Code != 4 || !strings.Contains(res.Stderr, "nosuchcommand") {
		t.Errorf("%+v", res)
	}
}

// helperWorkflow reads, writes and shows files as the host application does, through
// programs, and depends on stdout being exact.
func helperWorkflow(t *testing.T, s server) {
	id := s.run(t, "bash", "true").SessionID
	const text = "line 1\n\ttab 'quoted' \"twice\" $HOME `id` \\\nEOF\n  é 数\n\n"
	write := "python3 - <<'PY_EOF_1'\nimport base64, os\npath = '/mnt/data/notes/a b.txt'\nos.makedirs(os.path.dirname(path), exist_ok=True)\nopen(path, 'w', encoding='utf-8', newline='').write(" +
		quoted(text) + ")\nPY_EOF_1"
	res := s.run(t, "bash", write, obj{"session_id": id})
	if res.Stderr != "" || *res.Code != 0 {
		t.Fatalf("write: %+v", res)
	}
	if res = s.run(t, "bash", "cat '/mnt/data/notes/a b.txt'", obj{"session_id": id}); res.Stdout != text || res.Stderr != "" {
		t.Errorf("read: %q, stderr %q", res.Stdout, res.Stderr)
	}
	if res = s.run(t, "bash", "cat '/mnt/data/notes'", obj{"session_id": id}); res.Stdout != "" || res.Stderr == "" || *res.Code == 0 {
		t.Errorf("a directory: %+v", res)
	}
}

// skillWorkflow primes a skill as newer hosts do and uses it from a conversation.
func skillWorkflow(t *testing.T, s server) {
	parts := []part{{name: "kind", value: "skill"}, {name: "id", value: "sk-1"}, {name: "version", value: "7"}, {name: "read_only", value: "true"}}
	names := []string{"demo/SKILL.md", "demo/scripts/run.py", "demo/schema.xsd", "demo/package.lock", "demo/types.d.ts"}
	for k, name := range names {
		content := fmt.Sprintf("# %d", k)
		if name == "demo/scripts/run.py" {
			content = "print('skill ran')"
		}
		parts = append(parts, fileNamed(name, content))
	}
	up := into[stored](t, s.sendForm(t, "/v1/upload/batch", parts...), 200)
	if up.Message != "success" || up.Succeeded != len(names) || up.Failed != 0 || up.StorageSessionID == "" {
		t.Fatalf("%+v", up)
	}
	var in []ref
	version := int64(7)
	for k, name := range names {
		if up.Files[k].Filename != name {
			t.Errorf("%q is echoed as %q", name, up.Files[k].Filename)
		}
		f := up.ref(k, name)
		f.Kind, f.ResourceID, f.Version = "skill", "sk-1", &version
		in = append(in, f)
	}
	talk := s.upload(t, part{name: "kind", value: "user"}, part{name: "id", value: "u"}, fileNamed("mine.txt", "mine"))
	mine := talk.ref(0, "mine.txt")
	mine.Kind, mine.ResourceID = "user", "u"
	for range 2 { // a skill is used by many conversations
		res := s.run(t, "bash", "python3 demo/scripts/run.py; cat mine.txt", obj{"files": append(slices.Clone(in), mine)})
		if res.Stdout != "skill ran\nmine" || res.SessionID == up.StorageSessionID {
			t.Errorf("%+v", res)
		}
		for _, f := range res.Files {
			if !f.Inherited || f.Kind == "skill" && (f.StorageSessionID != up.StorageSessionID || f.Version == nil || *f.Version != 7 || f.ResourceID != "sk-1") {
				t.Errorf("%+v", f)
			}
		}
	}
	for query, want := range map[string]int{"?kind=skill&id=sk-1&version=7": 200, "?kind=skill&id=sk-1&version=8": 404, "": 200} {
		if r := s.get(t, "/v1/sessions/"+up.StorageSessionID+"/objects/"+in[0].ID+query); r.status != want {
			t.Errorf("%q: %d %s", query, r.status, r.body)
		}
	}
}
