package canon

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// String reads a string.
func (r *Reader) String() string {
	r.space()
	if r.err != nil {
		return ""
	}
	if !r.take('"') {
		r.Fail("want a string")
		return ""
	}
	start, i, ascii := r.pos, r.pos, true
	for {
		for i < len(r.data) && plain[r.data[i]] {
			i++
		}
		if i == len(r.data) {
			r.pos = i
			r.Fail("string is not closed")
			return ""
		}
		switch c := r.data[i]; {
		case c == '"':
			if !ascii && !utf8.ValidString(r.data[start:i]) {
				r.Fail("string is not valid UTF-8")
				return ""
			}
			r.pos = i + 1
			return r.data[start:i]
		case c == '\\':
			return r.escaped(start)
		case c < 0x20:
			r.pos = i
			r.Fail("control character in a string")
			return ""
		}
		ascii = false
		i++
	}
}

// escaped reads a string that holds an escape, from its first byte.
func (r *Reader) escaped(start int) string {
	var out []byte
	for r.pos = start; r.pos < len(r.data); {
		run := r.pos
		for r.pos < len(r.data) && (plain[r.data[r.pos]] || r.data[r.pos] >= utf8.RuneSelf) {
			r.pos++
		}
		out = append(out, r.data[run:r.pos]...)
		if r.take('"') {
			if !utf8.Valid(out) {
				r.Fail("string is not valid UTF-8")
				return ""
			}
			return string(out)
		}
		if r.pos == len(r.data) {
			break
		}
		if !r.take('\\') {
			r.Fail("control character in a string")
			return ""
		}
		if r.pos == len(r.data) {
			break
		}
		c := r.data[r.pos]
		r.pos++
		if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
			out = append(out, "\"\\/\b\f\n\r\t"[i])
			continue
		}
		if c != 'u' {
			r.Fail("unknown escape in a string")
			return ""
		}
		ru, ok := r.unicode()
		if !ok {
			return ""
		}
		out = utf8.AppendRune(out, ru)
	}
	r.Fail("string is not closed")
	return ""
}

// unicode reads what follows \u, and a second escape where the first is half of a
// surrogate pair.
func (r *Reader) unicode() (rune, bool) {
	first, ok := r.hex4()
	if ok && utf16.IsSurrogate(first) {
		var second rune
		if r.word(`\u`) {
			second, ok = r.hex4()
		}
		first = utf16.DecodeRune(first, second)
		ok = ok && first != utf8.RuneError
	}
	if !ok {
		r.Fail("bad \\u escape in a string")
	}
	return first, ok
}

func (r *Reader) hex4() (rune, bool) {
	if len(r.data)-r.pos < 4 {
		return 0, false
	}
	var v rune
	for _, c := range []byte(r.data[r.pos : r.pos+4]) {
		switch {
		case isDigit(c):
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | rune(c)
	}
	r.pos += 4
	return v, true
}
