package canon

import (
	"slices"
	"strconv"
	"strings"
)

// Bounds that no contract comes near, so that a hostile reply costs its reader
// little.
const (
	// MaxDepth is how deep objects and arrays may nest.
	MaxDepth = 32
	// MaxMembers is how many members one object may have.
	MaxMembers = 256
)

// SyntaxError says what is wrong with a text and where.
type SyntaxError struct {
	// Path names the member, for example "limits.wall_ms" or "steps[1].argv"; it
	// is empty for the whole text.
	Path string
	// Offset is the byte at which reading stopped.
	Offset int
	// Problem completes the sentence, for example "want an integer".
	Problem string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	if e.Path == "" {
		return "json: " + e.Problem + " at byte " + strconv.Itoa(e.Offset)
	}
	return "json: " + e.Path + ": " + e.Problem + " at byte " + strconv.Itoa(e.Offset)
}

// Reader reads one JSON text from the front to the back. Its methods each consume
// one value; after the first error they consume nothing and return zero values,
// so a decoder checks [Reader.End] once. A Reader is for one goroutine.
//
// The text is copied once, and strings without escapes are parts of that copy: a
// decoder allocates little, and what it keeps may keep the whole text.
type Reader struct {
	data  string
	pos   int
	depth int
	err   *SyntaxError
	// names holds the members seen so far in the open objects, for duplicates.
	names []string
	room  [24]string
}

// NewReader returns a Reader of data.
func NewReader(data []byte) *Reader {
	r := &Reader{}
	r.Reset(data)
	return r
}

// Reset makes r a Reader of data, for whoever reads many texts. It keeps nothing of what
// it read before.
func (r *Reader) Reset(data []byte) {
	r.data, r.pos, r.depth, r.err = string(data), 0, 0, nil
	clear(r.room[:])
	r.names = r.room[:0]
}

// Err returns the first error, or nil.
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

// End checks that nothing but white space follows and returns the first error.
func (r *Reader) End() error {
	r.space()
	if r.err == nil && r.pos < len(r.data) {
		r.Fail("unexpected text after the value")
	}
	return r.Err()
}

// Fail records a problem with the value just read. Decoders use it for rules that
// are not syntax, so that the error names the member all the same.
func (r *Reader) Fail(problem string) {
	if r.err == nil {
		r.err = &SyntaxError{Offset: r.pos, Problem: problem}
	}
}

// Object reads an object and calls member for each of its members, which must
// consume the value. Names are compared byte by byte, and a second member of the
// same name is an error.
func (r *Reader) Object(member func(name string)) {
	if !r.open('{', "an object") {
		return
	}
	mark := len(r.names)
	defer func() { r.names = r.names[:mark]; r.depth-- }()
	ascending := true
	for n := 0; ; n++ {
		r.space()
		if n == 0 && r.take('}') {
			return
		}
		if n == MaxMembers {
			r.Fail("too many members")
		}
		name := r.String()
		r.space()
		if r.err == nil && !r.take(':') {
			r.Fail("want ':' after a member's name")
		}
		// Canonical text has its members in order, which leaves nothing to search.
		if ascending = ascending && (n == 0 || name > r.names[len(r.names)-1]); !ascending && slices.Contains(r.names[mark:], name) {
			r.Fail("duplicate member " + strconv.Quote(name))
		}
		if r.err != nil {
			return
		}
		r.names = append(r.names, name)
		member(name)
		if r.err != nil {
			r.err.Path = join(name, r.err.Path)
			return
		}
		r.space()
		if r.take(',') {
			continue
		}
		if !r.take('}') {
			r.Fail("want ',' or '}' after a member")
		}
		return
	}
}

// Array reads an array of at most limit elements and calls element for each,
// which must consume the value.
func (r *Reader) Array(limit int, element func()) {
	if !r.open('[', "an array") {
		return
	}
	defer func() { r.depth-- }()
	for n := 0; ; n++ {
		r.space()
		if n == 0 && r.take(']') {
			return
		}
		if n == limit {
			r.Fail("more than " + strconv.Itoa(limit) + " elements")
			return
		}
		element()
		if r.err != nil {
			r.err.Path = join("["+strconv.Itoa(n)+"]", r.err.Path)
			return
		}
		r.space()
		if r.take(',') {
			continue
		}
		if !r.take(']') {
			r.Fail("want ',' or ']' after an element")
		}
		return
	}
}

// Strings reads an array of at most limit strings.
func (r *Reader) Strings(limit int) []string {
	var list []string
	r.Array(limit, func() { list = append(list, r.String()) })
	return list
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	r.space()
	switch {
	case r.err != nil:
	case r.word("true"):
		return true
	case r.word("false"):
	default:
		r.Fail("want true or false")
	}
	return false
}

// Int reads an integer that fits 64 bits, without fraction or exponent.
func (r *Reader) Int() int64 {
	r.space()
	start := r.pos
	if n, end := short(r.data, start); end > 0 && r.err == nil {
		r.pos = end
		return n
	}
	if !r.number() {
		return 0
	}
	n, err := strconv.ParseInt(r.data[start:r.pos], 10, 64)
	if err != nil {
		r.pos = start
		r.Fail("want a 64-bit integer")
	}
	return n
}

// short reads a number of at most 18 digits, without sign, fraction or exponent, which
// is what there is most of, and returns where it ends; 0 is that it is none.
func short(s string, i int) (n int64, end int) {
	start := i
	for ; i < len(s) && isDigit(s[i]); i++ {
		if i-start == 18 {
			return 0, 0
		}
		n = n*10 + int64(s[i]-'0')
	}
	if i == start || s[start] == '0' && i > start+1 || i < len(s) && (s[i] == '.' || s[i]|' ' == 'e') {
		return 0, 0
	}
	return n, i
}

// Skip reads a value of any kind and drops it. Objects inside it are held to the
// same rules as elsewhere.
func (r *Reader) Skip() {
	r.space()
	if r.err != nil {
		return
	}
	if r.pos == len(r.data) {
		r.Fail("unexpected end")
		return
	}
	switch c := r.data[r.pos]; {
	case c == '{':
		r.Object(func(string) { r.Skip() })
	case c == '[':
		r.Array(len(r.data), r.Skip)
	case c == '"':
		_ = r.String()
	case c == '-' || isDigit(c):
		r.number()
	case r.word("true"), r.word("false"), r.word("null"):
	default:
		r.Fail("want a value")
	}
}

// Unknown is for a decoder that does not tolerate unknown members.
func (r *Reader) Unknown() { r.Fail("unknown member") }

// number consumes a JSON number of any form.
func (r *Reader) number() bool {
	if r.err != nil {
		return false
	}
	start := r.pos
	r.take('-')
	ok := r.take('0') || r.digits()
	if ok && r.take('.') {
		ok = r.digits()
	}
	if ok && (r.take('e') || r.take('E')) {
		_ = r.take('+') || r.take('-')
		ok = r.digits()
	}
	if !ok {
		r.pos = start
		r.Fail("want a number")
	}
	return ok
}

func (r *Reader) digits() bool {
	start := r.pos
	for r.pos < len(r.data) && isDigit(r.data[r.pos]) {
		r.pos++
	}
	return r.pos > start
}

// open consumes the first byte of an object or an array.
func (r *Reader) open(c byte, what string) bool {
	r.space()
	if r.err == nil && !r.take(c) {
		r.Fail("want " + what)
	}
	if r.err == nil && r.depth == MaxDepth {
		r.Fail("nested too deep")
	}
	if r.err != nil {
		return false
	}
	r.depth++
	return true
}

func (r *Reader) take(c byte) bool {
	if r.err == nil && r.pos < len(r.data) && r.data[r.pos] == c {
		r.pos++
		return true
	}
	return false
}

func (r *Reader) word(w string) bool {
	if strings.HasPrefix(r.data[r.pos:], w) {
		r.pos += len(w)
		return true
	}
	return false
}

func (r *Reader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// join puts a member's name in front of a path below it.
func join(name, path string) string {
	if path == "" || path[0] == '[' {
		return name + path
	}
	return name + "." + path
}
