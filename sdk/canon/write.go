package canon

import (
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// plain bytes stand for themselves inside a JSON string: ASCII without control
// characters, quote and backslash. A table, because this is the innermost loop of
// reading and writing, and a guest runs it slowly.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// AppendString appends s as a JSON string. Bytes that are not valid UTF-8 become
// U+FFFD, since JSON text cannot carry them.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + size
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// AppendStrings appends list as a JSON array; a nil list is an empty array.
func AppendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, s)
	}
	return append(dst, ']')
}

// Object appends one JSON object to a buffer. The caller writes members in the
// byte order of their names and then takes the buffer from Close. The zero value
// is not usable; start with [NewObject]. An Object is for one goroutine.
type Object struct {
	buf   []byte
	first bool
}

// NewObject opens an object at the end of dst.
func NewObject(dst []byte) Object {
	return Object{buf: append(dst, '{'), first: true}
}

// Close ends the object and returns the buffer.
func (o *Object) Close() []byte { return append(o.buf, '}') }

// Name writes a member's name. The value follows through Value.
func (o *Object) Name(name string) {
	if !o.first {
		o.buf = append(o.buf, ',')
	}
	o.first = false
	o.buf = AppendString(o.buf, name)
	o.buf = append(o.buf, ':')
}

// String writes a string member.
func (o *Object) String(name, value string) {
	o.Name(name)
	o.buf = AppendString(o.buf, value)
}

// OptString writes a string member unless it is empty.
func (o *Object) OptString(name, value string) {
	if value != "" {
		o.String(name, value)
	}
}

// Int writes an integer member.
func (o *Object) Int(name string, value int64) {
	o.Name(name)
	o.buf = strconv.AppendInt(o.buf, value, 10)
}

// OptInt writes an integer member unless it is zero.
func (o *Object) OptInt(name string, value int64) {
	if value != 0 {
		o.Int(name, value)
	}
}

// OptBool writes a boolean member if it is true.
func (o *Object) OptBool(name string, value bool) {
	if value {
		o.Name(name)
		o.buf = append(o.buf, "true"...)
	}
}

// Strings writes an array of strings.
func (o *Object) Strings(name string, list []string) {
	o.Name(name)
	o.buf = AppendStrings(o.buf, list)
}

// OptStrings writes an array of strings unless it is empty.
func (o *Object) OptStrings(name string, list []string) {
	if len(list) > 0 {
		o.Strings(name, list)
	}
}

// Value writes a member whose value add appends.
func (o *Object) Value(name string, add func(dst []byte) []byte) {
	o.Name(name)
	o.buf = add(o.buf)
}
