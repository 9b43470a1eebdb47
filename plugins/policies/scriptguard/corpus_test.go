package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/sdk/policy"
)

// snippet is one program of a corpus: "=== language [type[?]] title", and the text.
// The type is that of a hostile one; with a question mark it is only odd.
type snippet struct {
	language, kind, title, code string
	certain                     bool
}

func corpus(t testing.TB, pattern string, hostile bool) (out []snippet) {
	t.Helper()
	files, err := filepath.Glob("testdata/" + pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus %s: %v", pattern, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq(strings.TrimPrefix(string(b), "=== "), "\n=== ") {
			head, code, _ := strings.Cut(part, "\n")
			language, title, _ := strings.Cut(head, " ")
			s := snippet{language: language, title: title, code: code}
			if hostile {
				kind, title, _ := strings.Cut(title, " ")
				s.kind, s.title = strings.TrimSuffix(kind, "?"), title
				s.certain = s.kind == kind
			}
			out = append(out, s)
		}
	}
	return out
}

func plain(t testing.TB) *config {
	t.Helper()
	c, err := parseConfig([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// No ordinary program is refused, and none is remarked on. That is no proof of a rate;
// it is a number that cannot get worse unseen.
func TestOrdinaryPrograms(t *testing.T) {
	c := plain(t)
	list := corpus(t, "ordinary-*.txt", false)
	if len(list) < 300 {
		t.Errorf("only %d programs", len(list))
	}
	refused, remarked := 0, 0
	for _, s := range list {
		r := policy.Request{Language: s.language, Code: s.code}
		if v := c.admit(r); v.Decision != policy.Allow {
			refused++
			t.Errorf("%s %s: %+v", s.language, s.title, v)
		}
		if m := c.result(policy.Outcome{Request: r}); len(m.Warnings) > 0 {
			remarked++
			t.Errorf("%s %s: %+v", s.language, s.title, m)
		}
	}
	t.Logf("%d ordinary programs: %d refused, %d remarked on", len(list), refused, remarked)
}

// Every hostile program is found for what it is, and treated as its rule says.
func TestHostilePrograms(t *testing.T) {
	c := plain(t)
	list := corpus(t, "hostile.txt", true)
	if len(list) < 100 {
		t.Errorf("only %d programs", len(list))
	}
	refused, remarked := 0, 0
	for _, s := range list {
		r := policy.Request{Language: s.language, Code: s.code}
		v := c.admit(r)
		if err := v.Validate(); err != nil {
			t.Errorf("%s: %v", s.title, err)
		}
		switch m := c.result(policy.Outcome{Request: r}); {
		case s.certain:
			refused++
			if v.Decision != policy.Deny || !slices.ContainsFunc(c.findings(r, true), func(f Finding) bool { return f.Type == s.kind }) {
				t.Errorf("%s %s %s: %+v", s.language, s.kind, s.title, v)
			}
		default:
			remarked++
			if v.Decision != policy.Allow || !slices.ContainsFunc(m.Warnings, func(w policy.Remark) bool { return w.Code == s.kind }) {
				t.Errorf("%s %s %s: %+v %+v", s.language, s.kind, s.title, v, m)
			}
			if err := m.Validate(); err != nil {
				t.Errorf("%s: %v", s.title, err)
			}
		}
	}
	t.Logf("%d hostile programs: %d refused, %d remarked on", len(list), refused, remarked)
}

// Every rule finds a program of the corpus that is of its type: one that finds nothing is
// not known to work.
func TestEveryRuleFinds(t *testing.T) {
	list := corpus(t, "hostile.txt", true)
	found := make(map[string]bool)
	for _, s := range list {
		for _, f := range scan(s.language, s.code, nil, 1<<20) {
			if f.Type == s.kind {
				found[f.Type+" "+f.Pattern] = true
			}
		}
	}
	for _, k := range rules {
		if !found[k.kind+" "+k.name] {
			t.Errorf("no program of the corpus is found by %s %s", k.kind, k.name)
		}
	}
}
