package posixre

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var cases = []struct {
	expr     string
	extended bool
	text     string
	want     string // the match; "-" for none
}{
	{`a*`, false, "aaab", "aaa"},
	{`*a`, false, "x*a", "*a"},
	{`a+`, false, "aa+", "a+"},
	{`a\+`, false, "aa+", "aa"},
	{`a+`, true, "aa+", "aa"},
	{`\(ab\)*c`, false, "ababc", "ababc"},
	{`(ab)*c`, false, "(ab)c", "(ab)c"},
	{`a\{2,3\}`, false, "aaaa", "aaa"},
	{`a{2}`, true, "aaa", "aa"},
	{`a{,2}b`, true, "aaab", "aab"},
	{`a{x`, true, "a{x", "a{x"},
	{`[[:digit:]]+`, true, "ab12", "12"},
	{`[]a]`, false, "]", "]"},
	{`[^]a]`, false, "]b", "b"},
	{`[a\]`, false, `\`, `\`},
	{`[\n]`, false, "\n", "\n"},
	{`a|b`, false, "a|b", "a|b"},
	{`x|xy`, true, "xy", "xy"},
	{`a\|b`, false, "b", "b"},
	{`^a`, false, "ba", "-"},
	{`a^`, false, "a^", "a^"},
	{`a$b`, false, "a$b", "a$b"},
	{`\(^a\)`, false, "a", "a"},
	{`\.`, false, "a.b", "."},
	{`\w\+`, false, "-ab_1-", "ab_1"},
	{`\bfoo\b`, true, "a foo.", "foo"},
	{`a**`, false, "aaa", "aaa"},
	{`a+?`, true, "aaa", "aaa"},
	{`[a-c]*`, false, "abcd", "abc"},
	{`[[.-.]]`, false, "-", "-"},
	{`é.`, true, "éa", "éa"},
	{`()`, true, "x", ""},
}

func TestMatches(t *testing.T) {
	for _, tc := range cases {
		re, err := Compile(tc.expr, Flags{Extended: tc.extended})
		if err != nil {
			t.Errorf("%q: %v", tc.expr, err)
			continue
		}
		got := "-"
		if m := re.FindStringIndex(tc.text); m != nil {
			got = tc.text[m[0]:m[1]]
		}
		if got != tc.want {
			t.Errorf("%q (extended %v) in %q matches %q, want %q", tc.expr, tc.extended, tc.text, got, tc.want)
		}
	}
}

// TestLikeGrep compares with the machine's own grep.
func TestLikeGrep(t *testing.T) {
	grep, err := exec.LookPath("grep")
	if err != nil {
		t.Skip("grep is not installed")
	}
	for _, tc := range cases {
		if strings.ContainsRune(tc.text, '\n') || tc.want == "" {
			continue // not one line, or nothing to print
		}
		syntax := "-G"
		if tc.extended {
			syntax = "-E"
		}
		cmd := exec.Command(grep, syntax, "-o", "-m1", "-e", tc.expr)
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		cmd.Stdin = strings.NewReader(tc.text + "\n")
		out, _ := cmd.Output()
		want, _, _ := strings.Cut(string(out), "\n")
		if want == "" {
			want = "-"
		}
		if want != tc.want {
			t.Errorf("%q in %q: grep says %q, this table %q", tc.expr, tc.text, want, tc.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for expr, extended := range map[string]bool{
		`\(a`: false, `a\)`: false, `[a`: false, `[[:foo:]]`: false, `a\`: true, `(a`: true, `[b-a]`: false, `a\{x\}`: false, `a{2}{3}`: true,
		strings.Repeat("a", MaxBytes+1): true,
	} {
		if _, err := Compile(expr, Flags{Extended: extended}); err == nil {
			t.Errorf("%.20q was accepted", expr)
		}
	}
	if _, err := Compile(`\(a\)\1`, Flags{}); !errors.Is(err, ErrBackReference) {
		t.Errorf("back-reference: %v", err)
	}
}

// FuzzTranslate: whatever is accepted compiles, or fails for its size.
func FuzzTranslate(f *testing.F) {
	for _, tc := range cases {
		f.Add(tc.expr, tc.extended)
	}
	f.Fuzz(func(t *testing.T, expr string, extended bool) {
		text, err := Translate(expr, extended)
		if err != nil {
			return
		}
		if !utf8.ValidString(text) {
			t.Errorf("%q became invalid text %q", expr, text)
		}
		if _, err := regexp.Compile(text); err != nil && !strings.Contains(err.Error(), "repeat") && !strings.Contains(err.Error(), "nests") && !strings.Contains(err.Error(), "too large") {
			t.Errorf("%q became %q: %v", expr, text, err)
		}
	})
}
