package languages

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/backend"
)

func TestParse(t *testing.T) {
	got, err := Parse(" py=cpython@3.11\n\tjs=node js=bun@1+rc.2 ")
	want := []backend.LanguageSupport{
		{ID: "py", Toolchain: "cpython", Version: "3.11"}, {ID: "js", Toolchain: "node"}, {ID: "js", Toolchain: "bun", Version: "1+rc.2"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for text, says := range map[string]string{
		"py":                          `"py" is not LANGUAGE=TOOLCHAIN`,
		"=cpython":                    "is not LANGUAGE=TOOLCHAIN",
		"py=":                         "is not LANGUAGE=TOOLCHAIN",
		"py=cpython@":                 "is not LANGUAGE=TOOLCHAIN",
		"Py=cpython":                  "is not LANGUAGE=TOOLCHAIN",
		"py=cpython@é":                "is not LANGUAGE=TOOLCHAIN",
		"py=cpython py=cpython@3":     "py=cpython is there twice",
		strings.Repeat("a", 16<<10):   "is not LANGUAGE=TOOLCHAIN",
		strings.Repeat(" ", 1+16<<10): "more than 16384 bytes",
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) || len(err.Error()) > 200 {
			t.Errorf("Parse(%.20q) = %v, %v; want an error with %q", text, got, err, says)
		}
	}
}

func TestOf(t *testing.T) {
	find := func(list []backend.LanguageSupport, id string) backend.LanguageSupport {
		i := slices.IndexFunc(list, func(l backend.LanguageSupport) bool { return l.ID == id })
		if i < 0 {
			t.Fatalf("no %s in %+v", id, list)
		}
		return list[i]
	}
	label := map[string]string{Label: "py=cpython@3.11 lua=lua"}
	list := Of("x:1", "", label)
	if py := find(list, "py"); py != (backend.LanguageSupport{ID: "py", Toolchain: "cpython", Version: "3.11"}) {
		t.Errorf("py: %+v", py)
	}
	if lua := find(list, "lua"); lua.Missing != "" {
		t.Errorf("what is not known is left out: %+v", lua)
	}
	if rs := find(list, "rs"); rs.Toolchain != "rustc" || rs.Missing != `image "x:1" does not have it` {
		t.Errorf("rs: %+v", rs)
	}
	// The operator knows better.
	list = Of("x:1", "js=bun", label)
	if js, py := find(list, "js"), find(list, "py"); js.Toolchain != "bun" || js.Missing != "" || py.Missing == "" {
		t.Errorf("js %+v, py %+v", js, py)
	}
	for _, tt := range []struct{ declared, label, says string }{
		{"", "", `does not say what it runs: give it the label run.caisson.languages, or set languages`},
		{"", "py", `is not known: its label run.caisson.languages: "py" is not`},
		{"py", "py=cpython", `is not known: languages: "py" is not`},
	} {
		for _, l := range Of("x:1", tt.declared, map[string]string{Label: tt.label}) {
			if !strings.Contains(l.Missing, tt.says) {
				t.Errorf("%q, %q: %+v, want %q", tt.declared, tt.label, l, tt.says)
			}
		}
	}
}

// The full image has what is known, and the Dockerfile's targets say what they have
// in the form that is read here.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../../images/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string][]backend.LanguageSupport{
		"MINIMAL": {{ID: "py", Toolchain: "cpython"}, {ID: "bash", Toolchain: "bash"}},
		"FULL":    Known(),
	} {
		m := regexp.MustCompile(`ARG ` + target + `="([^"]*)"`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("no %s", target)
		}
		got, err := Parse(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i].Version == "" {
				t.Errorf("%s: %s has no version", target, got[i].ID)
			}
			got[i].Version = ""
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s is %+v, want %+v", target, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("py=cpython@3.11 js=node")
	f.Add("a=b a=c@ @=")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := Parse(text)
		if err != nil {
			return
		}
		var again []string
		for _, l := range list {
			w := l.ID + "=" + l.Toolchain
			if l.Version != "" {
				w += "@" + l.Version
			}
			again = append(again, w)
		}
		if got, err := Parse(strings.Join(again, " ")); err != nil || !slices.Equal(got, list) {
			t.Fatalf("%q came back as %+v, %v", text, got, err)
		}
	})
}
