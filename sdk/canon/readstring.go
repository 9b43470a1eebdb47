package canon

import (
	"math/bits"
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
	start := r.pos
	i, ascii := special(r.data, start)
	if i == len(r.data) {
		r.pos = i
		r.Fail("string is not closed")
		return ""
	}
	switch r.data[i] {
	case '"':
		if !ascii && !utf8.ValidString(r.data[start:i]) {
			r.Fail("string is not valid UTF-8")
			return ""
		}
		r.pos = i + 1
		return r.data[start:i]
	case '\\':
		return r.escaped(start)
	default:
		r.pos = i
		r.Fail("control character in a string")
		return ""
	}
}

// special returns where, from i on, the first quote, backslash or control character of
// s is, or len(s), and whether all before it is ASCII. It looks at eight bytes at once:
// most of what a policy is shown is the text of a program.
func special(s string, i int) (at int, ascii bool) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	high := uint64(0)
	for ; len(s)-i >= 8; i += 8 {
		b := s[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote, backslash := w^ones*'"', w^ones*'\\'
		// The top bit of each byte that is zero, or below a space; what carries may set
		// others, above the first.
		found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-ones*' ')&^w) & tops
		if found != 0 {
			before := bits.TrailingZeros64(found) &^ 7
			high |= w & (1<<before - 1)
			return i + before/8, high&tops == 0
		}
		high |= w
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		high |= uint64(s[i])
		i++
	}
	return i, high&tops == 0
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
