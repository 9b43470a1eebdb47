package clienttest

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// recent reports whether a JavaScript client would take a time for the last minutes.
func recent(t *testing.T, v any) bool {
	t.Helper()
	at, err := time.Parse(time.RFC3339, fmt.Sprint(v))
	if err != nil {
		t.Error(err)
	}
	return time.Since(at).Abs() < 10*time.Minute
}

var outputRows = []row{
	{20, "a file written before the program fails", func(t *testing.T, s server) {
		for _, end := range []string{"sys.exit(3)", `raise SystemExit(3)`} {
			res := s.run(t, "py", "import sys\nopen('a.txt', 'w').write('kept')\nprint('oh', file=sys.stderr)\n"+end)
			if *res.Code != 3 || res.Stderr != "oh\n" || res.names() != "a.txt" || s.download(t, res.Files[0]) != "kept" {
				t.Errorf("%+v", res)
			}
		}
		if res := s.run(t, "py", "open('a', 'w'); raise ValueError('no')"); *res.Code == 0 || !strings.Contains(res.Stderr, "ValueError: no") || res.names() != "a" {
			t.Errorf("%+v", res)
		}
	}},
	{21, "files of any kind", func(t *testing.T, s server) {
		const names = "a.xsd b.ipynb c.parquet d.lock e.d.ts f.pkl g.npy h.db i.mp4 Makefile noextension"
		res := s.run(t, "bash", "for f in "+names+"; do echo $f > $f; done")
		for _, name := range strings.Fields(names) {
			if got := s.download(t, res.file(t, name)); got != name+"\n" {
				t.Errorf("%s is %q", name, got)
			}
			if up := s.upload(t, fileNamed(name, "x")); up.Files[0].Filename != name {
				t.Errorf("%+v", up)
			}
		}
	}},
	{22, "an empty file", func(t *testing.T, s server) {
		res := s.run(t, "bash", ": > empty")
		r := s.get(t, "/v1/download/"+res.SessionID+"/"+res.file(t, "empty").ID)
		if r.status != 200 || r.body != "" || r.header.Get("Content-Length") != "0" {
			t.Errorf("%d %v %q", r.status, r.header, r.body)
		}
	}},
	{23, "a link out of the data directory", func(t *testing.T, s server) {
		res := s.run(t, "py", `
import os
for target, name in ("/etc/passwd", "x"), ("/", "root"), ("../../etc/passwd", "x"), ("../..", "root"):
    try:
        os.symlink(target, name)
    except OSError:
        pass  # a sandbox may forbid some
open("a", "w")`)
		if res.names() != "a" {
			t.Errorf("%+v", res)
		}
		for _, path := range []string{"x", "root/etc/passwd"} {
			wantError(t, s.get(t, "/v1/download/"+res.SessionID+"/"+path), 404, "not_found")
		}
		if l := into[[]obj](t, s.get(t, "/v1/files/"+res.SessionID), 200); len(l) != 1 {
			t.Errorf("listing: %v", l)
		}
	}},
	{24, "more and larger files than are handed over", func(t *testing.T, s server) {
		res := s.run(t, "py", "for i in range(500): open(f'f{i:03}', 'w').write('x')")
		if d := res.ArtifactDelivery; d == nil || d.Code != "artifact_delivery_failed" || d.Status != "partial" || d.Attempted != d.Delivered+d.Failed || d.Delivered != len(res.Files) || d.Delivered < 50 {
			t.Errorf("%+v with %d files", d, len(res.Files))
		}
		res = s.run(t, "py", "f = open('big', 'wb')\nfor _ in range(60): f.write(bytes(1 << 20))")
		if d := res.ArtifactDelivery; d == nil || d.Status != "failed" || d.Delivered != 0 || d.Failed != 1 || len(res.Files) != 0 {
			t.Errorf("%+v %+v", res, d)
		}
	}},
	{25, "ten megabytes of output", func(t *testing.T, s server) {
		const line = "0123456789abcde\n"
		res := s.run(t, "py", "import sys\nfor _ in range(160): sys.stdout.write('0123456789abcde\\n' * 4096)\nopen('after', 'w')")
		whole := strings.Repeat(line, 160*4096)
		if len(res.Stdout) < 64<<10 || !strings.HasPrefix(whole, res.Stdout) || res.Status == nil || *res.Status != "OL" || !strings.Contains(res.Stderr, "[stdout truncated: kept ") || res.names() != "after" {
			t.Errorf("%d bytes, status %v, stderr %q", len(res.Stdout), res.Status, res.Stderr)
		}
	}},
	{26, "no output at all", func(t *testing.T, s server) {
		r := s.post(t, "/v1/exec", obj{"lang": "py", "code": "pass"})
		if res := into[outcome](t, r, 200); *res.Code != 0 || !strings.Contains(r.body, `"stdout":"","stderr":""`) {
			t.Errorf("%s", r.body)
		}
	}},
	{27, "a program without an end", func(t *testing.T, s server) {
		for lang, code := range map[string]string{"py": "print('begun', flush=True)\nopen('a', 'w')\nwhile True: pass", "bash": "echo begun; : > a; while true; do :; done"} {
			start := time.Now()
			res := s.run(t, lang, code, obj{"timeout": 1000})
			for ms := 2000; ms <= 8000 && res.names() != "a"; ms *= 2 { // a busy machine may need longer to begin
				res = s.run(t, lang, code, obj{"timeout": ms})
			}
			if res.Status == nil || *res.Status != "TO" || res.Stdout != "begun\n" || !strings.Contains(res.Stderr, "Time limit exceeded") || res.names() != "a" || time.Since(start) > 2*time.Minute {
				t.Errorf("%s: %+v after %v", lang, res, time.Since(start))
			}
		}
	}},
	{28, "a run longer than a silent connection lives", func(t *testing.T, s server) {
		q := longRun(t, s, "application/json")
		res, err := s.client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		all, err := io.ReadAll(res.Body)
		if err != nil || !strings.HasPrefix(string(all), "  ") {
			t.Errorf("%v, %q", err, all)
		}
		if out := into[outcome](t, response{status: res.StatusCode, body: string(all)}, 200); out.Stdout != "done\n" {
			t.Errorf("%+v", out)
		}
	}},
	{39, "answers of unknown length, and HEAD", func(t *testing.T, s server) {
		q := longRun(t, s, "text/event-stream")
		res, err := s.client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		all, err := io.ReadAll(res.Body)
		if err != nil || res.ContentLength != -1 || strings.Count(string(all), "\n:\n") < 2 || !strings.Contains(string(all), "event: result\n") {
			t.Errorf("%v, length %d, %q", err, res.ContentLength, all)
		}
		up := s.upload(t, fileNamed("a.csv", "12345"))
		if r := s.send(t, "HEAD", "/v1/download/"+up.SessionID+"/"+up.Files[0].FileID, nil, nil); r.status != 200 || r.body != "" || r.header.Get("Content-Length") != "5" {
			t.Errorf("HEAD: %d %v", r.status, r.header)
		}
	}},
	{45, "arguments as they are", func(t *testing.T, s server) {
		args := []string{"a b", "--x", "$(id)", `'"`, "", "é\n", "*"}
		want := "a b|--x|$(id)|'\"||é\n|*"
		for lang, code := range map[string]string{
			"py":   "import sys; print('|'.join(sys.argv[1:]), end='')",
			"js":   "process.stdout.write(process.argv.slice(2).join('|'))",
			"bash": `IFS='|'; printf %s "$*"`,
		} {
			if res := s.run(t, lang, code, obj{"args": args}); res.Stdout != want || *res.Code != 0 {
				t.Errorf("%s: %+v", lang, res)
			}
		}
		// Whatever a model sends: one argument, or none.
		for args, want := range map[string]string{`"one"`: "one", `7`: "7", `null`: "", `{"k":[1]}`: `{"k":[1]}`} {
			r := s.post(t, "/v1/exec", `{"lang":"bash","code":"printf %s \"$*\"","args":`+args+`}`)
			if res := into[outcome](t, r, 200); res.Stdout != want {
				t.Errorf("%s: %+v", args, res)
			}
		}
	}},
	{47, "code that quoting would hurt", func(t *testing.T, s server) {
		for _, code := range []string{
			"print(open(__file__, 'rb').read())\r\n#\ttab\r\n'''EOF\nEOF'''\n",
			"\ufeffprint(open(__file__, 'rb').read()) # '$(id)' \"`id`\" ${x}\n",
		} {
			res := s.run(t, "py", code)
			check := s.run(t, "py", "import sys; print(sys.argv[1].encode())", obj{"args": []string{code}})
			if *res.Code != 0 || res.Stdout != check.Stdout {
				t.Errorf("%q ran as %+v", code, res)
			}
		}
		// The program is not in the data directory, and no file of the user's is lost to it.
		up := s.upload(t, fileNamed("main.py", "x = 1"), fileNamed("helper.py", "y = 2"))
		code := "import helper; print(open('main.py').read(), helper.y, __name__)"
		if res := s.run(t, "py", code, obj{"files": []ref{up.ref(0, "main.py"), up.ref(1, "helper.py")}}); res.Stdout != "x = 1 2 __main__\n" || res.names() != "(main.py) (helper.py)" {
			t.Errorf("%+v", res)
		}
	}},
	{48, "input that nobody gives", func(t *testing.T, s server) {
		if res := s.run(t, "py", "input()"); !strings.Contains(res.Stderr, "EOFError") || *res.Code != 1 {
			t.Errorf("%+v", res)
		}
		if res := s.run(t, "bash", "read x; echo $?; cat"); res.Stdout != "1\n" {
			t.Errorf("%+v", res)
		}
	}},
	{61, "an image read in windows", func(t *testing.T, s server) {
		id := s.run(t, "py", "open('i.png', 'wb').write(bytes(range(256)) * 2000)").SessionID
		const window = 45000 // stays below 64 KiB in base64
		var all strings.Builder
		for k := range 12 {
			code := fmt.Sprintf("tail -c +%d '/mnt/data/i.png' | head -c %d | base64 -w 0", k*window+1, window)
			res := s.run(t, "bash", code, obj{"session_id": id})
			if res.Stderr != "" || strings.ContainsAny(res.Stdout, "\n ") {
				t.Fatalf("window %d: %+v", k, res)
			}
			all.WriteString(res.Stdout)
		}
		want := s.run(t, "py", "import base64; print(base64.b64encode(open('i.png', 'rb').read()).decode(), end='')", obj{"session_id": id})
		if all.String() != want.Stdout || len(want.Stdout) != 512000/3*4+4 {
			t.Errorf("%d characters, want %d", all.Len(), len(want.Stdout))
		}
	}},
	{62, "a path that is not there", func(t *testing.T, s server) {
		if res := s.run(t, "bash", "cat '/mnt/data/no such.txt'"); res.Stdout != "" || res.Stderr != "cat: '/mnt/data/no such.txt': No such file or directory\n" && res.Stderr != "cat: /mnt/data/no such.txt: No such file or directory\n" || *res.Code != 1 {
			t.Errorf("%+v", res)
		}
	}},
	{74, "bytes that are no text", func(t *testing.T, s server) {
		res := s.run(t, "py", `import sys; sys.stdout.buffer.write(b"a\xff\xfeb\x00\x1b[31mred\x1b[0m\xe2\x82\xac")`)
		if res.Stdout != "a\ufffdb\x00\x1b[31mred\x1b[0m€" && res.Stdout != "a\ufffd\ufffdb\x00\x1b[31mred\x1b[0m€" {
			t.Errorf("%q", res.Stdout)
		}
	}},
}
