package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/language"
)

// The published set (docs/wire.md), in its order.
var published = []string{"py", "js", "ts", "c", "cpp", "java", "php", "rs", "go", "d", "f90", "r", "bash"}

func TestTable(t *testing.T) {
	tab := table()
	if err := tab.Validate(); err != nil {
		t.Fatal(err)
	}
	var advertised []string
	for _, l := range tab.Languages {
		if l.Advertised {
			advertised = append(advertised, l.ID)
		}
		if len(l.Toolchains) == 0 {
			t.Errorf("%s has no toolchain", l.ID)
		}
	}
	if !slices.Equal(advertised, published) {
		t.Errorf("advertised %v, want %v", advertised, published)
	}
}

func TestAliases(t *testing.T) {
	want := map[string]string{
		"python": "py", "python3": "py", "javascript": "js", "node": "js", "typescript": "ts", "sh": "bash", "shell": "bash",
		"c++": "cpp", "cxx": "cpp", "golang": "go", "rust": "rs", "dlang": "d", "fortran": "f90",
	}
	got := map[string]string{}
	for _, l := range table().Languages {
		for _, a := range l.Aliases {
			if a != strings.ToLower(a) || got[a] != "" {
				t.Errorf("alias %q of %s is not lower case or is used twice", a, l.ID)
			}
			got[a] = l.ID
		}
	}
	for alias, id := range want {
		if got[alias] != id {
			t.Errorf("alias %q means %q, want %q", alias, got[alias], id)
		}
	}
}

func TestPlans(t *testing.T) {
	args := []string{"a b", "--version", "$(id)", "'\"\n", "{dir}"}
	for _, l := range table().Languages {
		for _, tc := range l.Toolchains {
			p, err := plan(language.PlanRequest{Language: l.ID, Toolchain: tc, Args: args})
			if l.ID == "sql" {
				if err == nil {
					t.Errorf("sqlite3 would run %q", args)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s by %s: %v", l.ID, tc, err)
			}
			if err := p.CheckArgs(args); err != nil {
				t.Errorf("%s by %s: %v", l.ID, tc, err)
			}
			if err := p.Validate(); err != nil {
				t.Errorf("%s by %s: %v", l.ID, tc, err)
			}
			for i, s := range p.Steps {
				last := i == len(p.Steps)-1
				if last != (s.Name == "run") || last != slices.Equal(s.Args, args) {
					t.Errorf("%s by %s: step %d %q has arguments %q", l.ID, tc, i, s.Name, s.Args)
				}
				for _, a := range s.Argv {
					if strings.Contains(a, "{dir}") && !strings.Contains(a, "{dir}/") && a != "{dir}" && !strings.HasSuffix(a, "={dir}") {
						t.Errorf("%s by %s: %q", l.ID, tc, a)
					}
				}
				if slices.Contains([]string{"sh", "bash", "env"}, s.Argv[0]) && l.ID != "bash" {
					t.Errorf("%s by %s goes through a shell: %q", l.ID, tc, s.Argv)
				}
			}
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, r := range []language.PlanRequest{{Language: "brainfuck", Toolchain: "gcc"}, {Language: "py", Toolchain: "gcc"}, {}} {
		if p, err := plan(r); err == nil {
			t.Errorf("plan(%+v) = %+v, want an error", r, p)
		}
	}
}

func TestSpellings(t *testing.T) {
	for _, spelling := range []string{"py", "PY", " Python\n", "python3"} {
		p, err := plan(language.PlanRequest{Language: spelling, Toolchain: "cpython"})
		if err != nil || p.File != "main.py" {
			t.Errorf("%q: %+v, %v", spelling, p, err)
		}
	}
}

func TestTableIsNotShared(t *testing.T) {
	a := table()
	a.Languages[0].ID = "changed"
	if b := table(); b.Languages[0].ID != "py" || len(b.Languages[0].Toolchains) != 1 {
		t.Errorf("got %+v", b.Languages[0])
	}
}
