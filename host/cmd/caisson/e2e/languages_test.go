package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// Each program reads a file, prints its argument and the file, and writes another;
// aliases are what people type.
var installable = []struct {
	lang, code string
	args       []string
	stdout     string
}{
	{"py", "import sys\nprint(sys.argv[1], open('in.txt').read())\nopen('out.txt', 'w').write('x')", []string{"a b"}, "a b text\n"},
	{"ruby", "puts \"#{ARGV[0]} #{File.read('in.txt')}\"\nFile.write('out.txt', 'x')", []string{"a b"}, "a b text\n"},
	{"php", "<?php echo $argv[1], ' ', file_get_contents('in.txt'), \"\\n\"; file_put_contents('out.txt', 'x');", []string{"a b"}, "a b text\n"},
	{"sqlite", ".print a b\nselect readfile('in.txt');\n.output out.txt\nselect 'x';", nil, "a b\ntext\n"},
}

// TestLanguages takes the languages that packs bring through everything: the wire,
// the table of languages, the backend and back.
func TestLanguages(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles interpreters, which takes a minute")
	}
	t.Parallel()
	p := newPlace(t)
	_, rows := languages(p.run(t, "", p.flags("doctor")...).stdout)
	absent := map[string]string{}
	for _, row := range rows {
		if row[4] != "-" {
			absent[row[1]] = row[4]
		}
	}
	p.env = append(p.env, "CODE_EXEC_API_KEY="+testKey, "CODE_EXEC_FEE_CENTS=0")
	s := p.serve(t).ready(t)
	for _, l := range installable {
		t.Run(l.lang, func(t *testing.T) {
			if why := absent[strings.NewReplacer("ruby", "rb", "sqlite", "sql").Replace(l.lang)]; why != "" {
				if os.Getenv("CAISSON_CI") != "" {
					t.Fatal(why)
				}
				t.Skip(why)
			}
			// The file is there from an earlier run of the session.
			session := s.python(t, "open('in.txt', 'w').write('text')").SessionID
			body, err := json.Marshal(map[string]any{"lang": l.lang, "code": l.code, "args": l.args, "session_id": session})
			if err != nil {
				t.Fatal(err)
			}
			var a answer
			for deadline := time.Now().Add(8 * time.Minute); ; {
				r := s.must(t, http.MethodPost, "/v1/exec", s.key, string(body))
				if a = decode(t, r.body); a.Code != nil || time.Now().After(deadline) {
					break
				}
				t.Logf("still compiling: %s", r.body) // each request waits for a while
			}
			if a.Code == nil || *a.Code != 0 || a.Stdout != l.stdout || a.Stderr != "" || a.SessionID != session {
				t.Errorf("%+v", a)
			}
			found := false
			for _, f := range a.Files {
				found = found || f.Name == "out.txt"
			}
			if !found {
				t.Errorf("no out.txt in %+v", a.Files)
			}
		})
	}
	s.stop(t)
}
