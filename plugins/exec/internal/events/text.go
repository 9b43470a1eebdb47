package events

import (
	"strings"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/exec/internal/runes"
)

const replacement = "\ufffd"

// joiner turns the pieces of a stream of bytes into text that never splits a
// character. Whatever the pieces are, the texts put together are
// strings.ToValidUTF8(all, "\ufffd"): a run of invalid bytes is one replacement,
// also where it lies in two pieces. The zero value is ready.
type joiner struct {
	held    []byte // the beginning of a character, shorter than utf8.UTFMax
	invalid bool   // the text so far ends inside a run of invalid bytes
}

// add returns what is complete with p. It keeps nothing of p.
func (j *joiner) add(p []byte) string {
	b := append(j.held, p...)
	keep := runes.Partial(b)
	text := j.valid(b[:len(b)-keep])
	j.held = append([]byte(nil), b[len(b)-keep:]...)
	return text
}

// end returns what is left. A character that a limit cut in two is left out
// rather than replaced.
func (j *joiner) end(cut bool) string {
	b := j.held
	j.held = nil
	if cut {
		return ""
	}
	return j.valid(b)
}

// valid is strings.ToValidUTF8 that knows how the text before it ended.
func (j *joiner) valid(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	text := strings.ToValidUTF8(string(b), replacement)
	if j.invalid {
		if r, n := utf8.DecodeRune(b); r == utf8.RuneError && n == 1 {
			text = strings.TrimPrefix(text, replacement)
		}
	}
	r, n := utf8.DecodeLastRune(b)
	j.invalid = r == utf8.RuneError && n == 1
	return text
}
