package runes

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPartial(t *testing.T) {
	for s, want := range map[string]int{
		"": 0, "a": 0, "ü": 0, "\xc3": 1, "aü\xf0\x9f": 2, "\xf0\x9f\x98": 3, "\xf0\x9f\x98\x80": 0, "\x80": 0, "\x80\x80\x80\x80": 0,
		"a\xff": 0, "\xe6\x95": 2, "\xff\xe6": 1,
	} {
		if got := Partial(s); got != want || Partial([]byte(s)) != want {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
	if got := Cut("aü", 2); got != "a" {
		t.Errorf("%q", got)
	}
	if got := Cut("aü", 3); got != "aü" {
		t.Errorf("%q", got)
	}
}

func FuzzCut(f *testing.F) {
	f.Add("aü数😀\xff", 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 {
			return
		}
		got := Cut(s, n)
		if len(got) > n || !strings.HasPrefix(s, got) || len(s) > n && n-len(got) >= utf8.UTFMax {
			t.Errorf("%q of %q in %d", got, s, n)
		}
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Errorf("%q of %q is no text", got, s)
		}
	})
}
