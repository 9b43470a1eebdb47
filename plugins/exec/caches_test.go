package exec

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCache(t *testing.T) {
	for name, want := range map[string]string{
		"a/b.py": "[]", "node_modules": "[node_modules]", "a/node_modules/b": "[node_modules]", "x.pyc": "[*.pyc]", "x.pyc/y": "[*.pyc]",
		"my__pycache__/x": "[]", ".git/__pycache__/y.pyc": "[.git __pycache__ *.pyc]", "pyc": "[]", ".gitignore": "[]",
	} {
		if got := fmt.Sprint(cache(name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// What somebody uploaded is listed, and comes back from runs, wherever it lies; what
// programs leave behind is not.
func TestUploadsInCaches(t *testing.T) {
	r := newRig(t)
	listing := func(s string) string {
		var names []string
		for _, l := range into[[]listed](t, r.get(alice, "/files/"+s), 200) {
			names = append(names, l.Metadata.OriginalFilename)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for _, name := range []string{"node_modules/x/index.js", ".git/config", "__pycache__/m.pyc", ".cache/a", ".config/b/c"} {
		t.Run(name, func(t *testing.T) {
			up := r.upload(alice, field{"kind", "", "user"}, field{"id", "", "u1"}, csv(name, "1"))
			if got := listing(up.SessionID); got != name {
				t.Errorf("the listing is %q", got)
			}
			in := obj{"files": []CodeFile{up.ref(0, name)}}
			if got := fileNames(r.exec(alice, "cat "+name, in).Files); got != "("+name+")" {
				t.Errorf("a run answers %q", got)
			}
			res := r.exec(alice, "echo 2 > "+name+"; mkdir -p .npm; echo > .npm/made; echo > made", in)
			if got := fileNames(res.Files); got != "made "+name && got != name+" made" {
				t.Fatalf("a run that changes it answers %q", got)
			}
			for _, f := range res.Files {
				if f.Name != name {
					continue
				}
				if f.ModifiedFrom == nil || f.ModifiedFrom.ID != up.Files[0].FileID || f.ID == up.Files[0].FileID {
					t.Errorf("%+v", f)
				}
				if a := r.get(alice, "/download/"+f.StorageSessionID+"/"+f.ID); a.status != 200 || string(a.body) != "2\n" {
					t.Errorf("%d %q", a.status, a.body)
				}
			}
			// The session has moved on from the version of the upload.
			again := r.exec(alice, "cat "+name, in)
			if again.Stdout != "2\n" || strings.Contains(again.Stderr, "not available") {
				t.Errorf("%+v", again)
			}
		})
	}
	t.Run("a skill", func(t *testing.T) {
		up := into[stored](t, r.send(alice, "/upload/batch", field{"kind", "", "skill"}, field{"id", "", "s"}, field{"version", "", "1"},
			csv("demo/SKILL.md", "#"), csv("demo/node_modules/x.js", "1")), 200)
		if got := listing(up.SessionID); got != "demo/SKILL.md demo/node_modules/x.js" {
			t.Errorf("the listing is %q", got)
		}
	})
	t.Run("a batch", func(t *testing.T) {
		up := into[stored](t, r.send(alice, "/upload/batch", csv("a", "1"), csv(".git/HEAD", "1")), 200)
		if got := listing(up.SessionID); got != ".git/HEAD a" {
			t.Errorf("the listing is %q", got)
		}
	})
	// Where it would not be listed it is refused, and not lost.
	t.Run("a session of a run", func(t *testing.T) {
		s := r.exec(alice, "echo > a").SessionID
		for _, path := range []string{"/upload", "/upload/batch"} {
			a := r.send(alice, path, field{"session_id", "", s}, csv("node_modules/x.js", "1"))
			if a.status != 400 || !strings.Contains(string(a.body), "node_modules") {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
		if got := listing(s); got != "a" {
			t.Errorf("the listing is %q", got)
		}
		if got := r.exec(alice, "ls -d node_modules || echo none", obj{"session_id": s}).Stdout; got != "none\n" {
			t.Errorf("there is %q", got)
		}
	})
	t.Run("beside others", func(t *testing.T) {
		if a := r.send(alice, "/upload", csv("a", "1"), csv(".git/HEAD", "1")); a.status != 400 || !strings.Contains(string(a.body), ".git") {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}
