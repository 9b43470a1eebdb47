package quickjs

import (
	"bytes"
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestReplaceInvalid(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain":                    "plain",
		"é€😀":                      "é€😀",
		"\xff":                     "\ufffd",
		"a\xe2\x82b":               "a\ufffdb",
		"\xe2\x82":                 "\ufffd",
		"\xf0\x9f\x98":             "\ufffd",
		"\xc3\x28":                 "\ufffd(",
		"\xed\xa0\x80":             "\ufffd\ufffd\ufffd",
		"\xf8\x88\x80\x80\x80":     "\ufffd\ufffd\ufffd\ufffd\ufffd",
		"\xc0\xaf":                 "\ufffd\ufffd",
		"\xf4\x90\x80\x80":         "\ufffd\ufffd\ufffd\ufffd",
		"\xe0\x80\x80":             "\ufffd\ufffd\ufffd",
		"x\xf0\x9f\x98\xf0\x9f":    "x\ufffd\ufffd",
		"\xef\xbf\xbd real U+FFFD": "\ufffd real U+FFFD",
	} {
		var got strings.Builder
		replaceInvalid([]byte(in), func(b []byte) { got.Write(b) })
		if got.String() != want {
			t.Errorf("%q: got %q, want %q", in, got.String(), want)
		}
	}
}

func TestReplaceSurrogates(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"plain \u00ed":               "plain \u00ed",
		"\xed\xa0\x80":               "\ufffd",
		"a\xed\xbf\xbfb\xed\xa0\x80": "a\ufffdb\ufffd",
		"\ud7ff\xed\xa0\x80":         "\ud7ff\ufffd",
	} {
		b := []byte(in)
		replaceSurrogates(b)
		if string(b) != want {
			t.Errorf("%q: got %q, want %q", in, b, want)
		}
	}
}

func FuzzReplaceInvalid(f *testing.F) {
	f.Add([]byte("a\xe2\x82b\xed\xa0\x80"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got []byte
		replaceInvalid(b, func(part []byte) { got = append(got, part...) })
		if !utf8.Valid(got) {
			t.Errorf("%q: %q is not valid", b, got)
		}
		if utf8.Valid(b) && !bytes.Equal(b, got) {
			t.Errorf("%q was changed to %q", b, got)
		}
		replaceSurrogates(b) // must stay within b
	})
}

// The decoders write no more than there are bytes in their input, which is the
// room they get.
func FuzzDecoders(f *testing.F) {
	f.Add([]byte("aGVsbG8="))
	f.Add([]byte("a-_/+ \n=="))
	f.Add([]byte("é😀\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dst := make([]byte, len(b))
		n := decodeBase64(dst, b)
		if want, err := base64.StdEncoding.DecodeString(string(b)); err == nil && !bytes.ContainsAny(b, "\r\n") && !bytes.Equal(dst[:n], want) {
			t.Errorf("base64 %q: got %x, want %x", b, dst[:n], want)
		}
		decodeLatin1(dst, b)
	})
}

func TestOriginalPosition(t *testing.T) {
	// esbuild's for "let a: number = 1;\n\n\nthrow a" -> "let a = 1;\nthrow a;".
	mappings := []byte("AAAA,IAAI,IAAY;AAGhB,MAAM;")
	for _, tc := range []struct{ line, column, wantLine, wantColumn int }{
		{1, 1, 1, 1},
		{1, 5, 1, 5},
		{1, 9, 1, 17},
		{2, 1, 4, 1},
		{2, 7, 4, 7},
		{2, 99, 4, 7},
		{3, 4, 3, 4},
		{0, 0, 0, 0},
		{-5, 7, -5, 7},
	} {
		line, column := originalPosition(mappings, tc.line, tc.column)
		if line != tc.wantLine || column != tc.wantColumn {
			t.Errorf("%d:%d: got %d:%d, want %d:%d", tc.line, tc.column, line, column, tc.wantLine, tc.wantColumn)
		}
	}
	if line, column := originalPosition([]byte("!!,AAAA,gggggggggggggggg"), 1, 2); line != 1 || column != 1 {
		t.Errorf("malformed segments: %d:%d", line, column)
	}
}

func FuzzOriginalPosition(f *testing.F) {
	f.Add([]byte("AAAA,IAAI;AAEA"), 2, 3)
	f.Add([]byte(";;;gggggD,,A"), 4, 1)
	f.Fuzz(func(_ *testing.T, mappings []byte, line, column int) {
		originalPosition(mappings, line, column)
	})
}

// The search in windows finds what one over all finds, also across their borders.
func TestIndexInWindows(t *testing.T) {
	v := &vm{ctx: context.Background()}
	for _, at := range []int{0, 1, partBytes - 2, partBytes - 1, partBytes, partBytes + 1, 2*partBytes - 3, 3*partBytes - 5} {
		h := bytes.Repeat([]byte("ab"), 3*partBytes/2)
		copy(h[at:], "needl")
		for _, n := range []string{"needl", "l", "", "ab", "needle"} {
			if got, want := v.index(h, []byte(n)), bytes.Index(h, []byte(n)); got != want {
				t.Errorf("index of %q, put at %d: got %d, want %d", n, at, got, want)
			}
			if got, want := v.lastIndex(h, []byte(n)), bytes.LastIndex(h, []byte(n)); got != want {
				t.Errorf("last index of %q, put at %d: got %d, want %d", n, at, got, want)
			}
		}
	}
	long := bytes.Repeat([]byte("a"), partBytes)
	h := append(bytes.Repeat([]byte("a"), partBytes-1), append([]byte("b"), long...)...)
	if got := v.index(h, long); got != partBytes {
		t.Errorf("index of a long needle: %d", got)
	}
}
