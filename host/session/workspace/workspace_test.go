package workspace

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

func TestPaths(t *testing.T) {
	l := Session()
	long := strings.Repeat("a", 256)
	for _, c := range []struct {
		name  string
		rule  func(string) (string, error)
		in    string
		want  string // empty: refused
		alias string
	}{
		{name: "relative", rule: l.Write, in: "a/b.txt", want: "/mnt/data/a/b.txt"},
		{name: "absolute", rule: l.Write, in: "/mnt/data/a", want: "/mnt/data/a"},
		{name: "shortest form", rule: l.Write, in: "./a//b/", want: "/mnt/data/a/b"},
		{name: "two dots in a name", rule: l.Write, in: "a..b.csv", want: "/mnt/data/a..b.csv"},
		{name: "any script", rule: l.Write, in: "販売データ.csv", want: "/mnt/data/販売データ.csv"},
		{name: "the root itself", rule: l.Write, in: "/mnt/data"},
		{name: "dot is the root", rule: l.Write, in: "."},
		{name: "up", rule: l.Write, in: "a/../../etc/passwd"},
		{name: "up within", rule: l.Write, in: "a/../b"},
		{name: "outside", rule: l.Write, in: "/etc/passwd"},
		{name: "sibling of the root", rule: l.Write, in: "/mnt/database"},
		{name: "input", rule: l.Write, in: "input/a"},
		{name: "input itself", rule: l.Write, in: "input"},
		{name: "sibling of input", rule: l.Write, in: "inputs/a", want: "/mnt/data/inputs/a"},
		{name: "NUL", rule: l.Write, in: "a\x00b"},
		{name: "newline", rule: l.Write, in: "a\nb"},
		{name: "not UTF-8", rule: l.Write, in: "a\xff"},
		{name: "empty", rule: l.Write, in: ""},
		{name: "long name", rule: l.Write, in: long},
		{name: "long path", rule: l.Write, in: strings.Repeat("a/", backend.MaxPath/2)},

		{name: "attachment", rule: l.WriteInput, in: "/mnt/data/input/a", want: "/mnt/data/input/a"},
		{name: "attachment elsewhere", rule: l.WriteInput, in: "a"},
		{name: "attachment beside", rule: l.WriteInput, in: "inputX/a"},
		{name: "attachment in place of input", rule: l.WriteInput, in: "input"},

		{name: "skill", rule: l.Install, in: "/opt/caisson/skills/pdf/SKILL.md", want: "/opt/caisson/skills/pdf/SKILL.md"},
		{name: "skill in the work tree", rule: l.Install, in: "pdf"},
		{name: "work in skills", rule: l.Write, in: "/opt/caisson/skills/pdf"},

		{name: "default output", rule: l.OutputDir, in: "", want: "/mnt/data/output"},
		{name: "other output", rule: l.OutputDir, in: "results", want: "/mnt/data/results"},
		{name: "output in place of the root", rule: l.OutputDir, in: "/mnt/data"},
		{name: "output in place of the root, spelled out", rule: l.OutputDir, in: "/mnt/data/./"},
		{name: "output in input", rule: l.OutputDir, in: "input/x"},

		{name: "read the root", rule: l.Read, in: "/mnt/data", want: "/mnt/data"},
		{name: "read input", rule: l.Read, in: "input/a", want: "/mnt/data/input/a"},
		{name: "read a skill", rule: l.Read, in: "/opt/caisson/skills/x", want: "/opt/caisson/skills/x"},
		{name: "read history", rule: l.Read, in: "/var/lib/caisson/git/HEAD"},
		{name: "read elsewhere", rule: l.Read, in: "/proc/self/environ"},
	} {
		got, err := c.rule(c.in)
		if got != c.want || (err != nil) != (c.want == "") || (err != nil && !errors.Is(err, ErrPath)) {
			t.Errorf("%s: %q = %q, %v; want %q", c.name, c.in, got, err, c.want)
		}
	}
}

func TestHistoryIsOutsideTheWorkTree(t *testing.T) {
	under, err := Under("/workspace")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := Shared("s1")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []Layout{Session(), under, shared} {
		for _, root := range []string{l.Git, l.Jobs, l.Skills} {
			if backend.Within(l.Root, root) {
				t.Errorf("%s lies in %s", root, l.Root)
			}
		}
		if !backend.Within(l.Root, l.Input) || !backend.Within(l.Root, l.Output) {
			t.Errorf("input and output are not in %s", l.Root)
		}
	}
}

func TestUnder(t *testing.T) {
	for _, root := range []string{"", "/", "workspace", "/workspace/", "/a/../b", "/var", "/opt/caisson/skills/x"} {
		if l, err := Under(root); !errors.Is(err, ErrPath) {
			t.Errorf("Under(%q) = %+v, %v", root, l, err)
		}
	}
}

func TestSharedLayoutsAreApart(t *testing.T) {
	seen := make(map[string]string)
	for _, session := range []string{"a", "A", "a/b", "../a", "a ", strings.Repeat("x", 500)} {
		l, err := Shared(session)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{l.Root, l.Git, l.Jobs} {
			if other, ok := seen[dir]; ok {
				t.Errorf("%q and %q share %s", session, other, dir)
			}
			seen[dir] = session
			if backend.CheckPath(dir) != nil {
				t.Errorf("%q is no path", dir)
			}
		}
		if _, err := l.Write("/mnt/data/sessions/other/f"); !errors.Is(err, ErrPath) {
			t.Error("one session may write into another's directory")
		}
	}
	if _, err := Shared(""); !errors.Is(err, ErrPath) {
		t.Errorf("Shared of nothing: %v", err)
	}
}

// A layout that could not be established never falls back to another one.
func TestFailedLayoutRefusesAll(t *testing.T) {
	cause := errors.New("the directory is down")
	for _, l := range []Layout{{}, Failed(cause)} {
		for name, rule := range map[string]func(string) (string, error){
			"Read": l.Read, "Write": l.Write, "WriteInput": l.WriteInput, "Install": l.Install,
			"OutputDir": l.OutputDir, "Resolve": l.Resolve,
		} {
			for _, p := range []string{"", "a", "/mnt/data/a", "/a"} {
				if got, err := rule(p); got != "" || !errors.Is(err, ErrPath) {
					t.Errorf("%s(%q) = %q, %v", name, p, got, err)
				}
			}
		}
	}
	if err := Failed(cause).Err(); !errors.Is(err, cause) {
		t.Errorf("Err() = %v, want the cause in it", err)
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "a b", "$HOME `id` \\ \"x\" $(id)", "it's", "''", "a\nb", "表.csv", "-rf", "\xff\xfe", "!{a,b}*?[x]~#"} {
		word, err := Quote(s)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "printf %s "+word).Output()
		if err != nil || string(out) != s {
			t.Errorf("the shell made %q of %s: %v", out, word, err)
		}
	}
	if _, err := Quote("a\x00b"); err == nil {
		t.Error("NUL was quoted")
	}
}

func TestPromptSafe(t *testing.T) {
	for p, want := range map[string]bool{
		"/mnt/data/report (1).csv": true, "販売データ_今週.xlsx": true, "é.txt": true,
		"": false, "a\nb": false, "a`b": false, "a\"b": false, "a\u202eb": false, "a\u200bb": false, "a\u3164b": false,
		" a": false, "a<b": false, "{{x}}": false, "a\\b": false, "\xff": false,
	} {
		if PromptSafe(p) != want {
			t.Errorf("PromptSafe(%q) is not %v", p, want)
		}
	}
}

func FuzzLayout(f *testing.F) {
	for _, s := range []string{"a", "../a", "/mnt/data/input/../x", "input//a", "a\x00", "/"} {
		f.Add(s)
	}
	l := Session()
	f.Fuzz(func(t *testing.T, p string) {
		for name, rule := range map[string]struct {
			do    func(string) (string, error)
			root  string
			never string
		}{
			"Write": {l.Write, l.Root, l.Input}, "WriteInput": {l.WriteInput, l.Input, "/mnt/data/output"},
			"OutputDir": {l.OutputDir, l.Root, l.Input}, "Install": {l.Install, l.Skills, l.Root},
		} {
			got, err := rule.do(p)
			if err != nil {
				continue
			}
			if backend.CheckPath(got) != nil || got == rule.root || !backend.Within(rule.root, got) || backend.Within(rule.never, got) {
				t.Errorf("%s(%q) = %q", name, p, got)
			}
		}
	})
}
