// Package posixre translates POSIX regular expressions, basic and extended, with
// the extensions of GNU, for Go's regexp package. Matching takes time linear in
// the input, whatever the expression.
//
// What such matching cannot do is an error: back-references inside an expression.
package posixre

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrBackReference says that the expression refers to what an earlier part of it
// matched.
var ErrBackReference = errors.New("back-references in regular expressions are not available")

// Flags vary Compile.
type Flags struct {
	// Extended selects extended syntax, else basic.
	Extended bool
	// IgnoreCase matches letters of either case.
	IgnoreCase bool
	// MultiLine lets ^ and $ match at line ends as well.
	MultiLine bool
}

// MaxBytes bounds an expression.
const MaxBytes = 64 << 10

// Compile translates and compiles an expression. Matches are leftmost-longest.
func Compile(expr string, f Flags) (*regexp.Regexp, error) {
	text, err := Translate(expr, f.Extended)
	if err != nil {
		return nil, err
	}
	flags := "s"
	if f.IgnoreCase {
		flags += "i"
	}
	if f.MultiLine {
		flags = strings.Replace(flags, "s", "", 1) + "m"
	}
	re, err := regexp.Compile("(?" + flags + ")" + text)
	if err != nil {
		return nil, fmt.Errorf("regular expression: %w", plain(err))
	}
	re.Longest()
	return re, nil
}

// plain leaves out the translated expression, which the caller never wrote.
func plain(err error) error {
	text := err.Error()
	if i := strings.Index(text, ": `"); i >= 0 {
		text = text[:i]
	}
	return errors.New(strings.TrimPrefix(text, "error parsing regexp: "))
}

// Translate returns expr in the syntax of Go.
func Translate(expr string, extended bool) (string, error) {
	if len(expr) > MaxBytes {
		return "", fmt.Errorf("regular expression of %d bytes: at most %d", len(expr), MaxBytes)
	}
	t := translator{in: expr, extended: extended, start: true}
	for t.at < len(t.in) {
		if err := t.next(); err != nil {
			return "", err
		}
	}
	if t.depth > 0 {
		return "", errors.New("unmatched ( or \\(")
	}
	return t.out.String(), nil
}

type translator struct {
	in       string
	at       int
	out      strings.Builder
	extended bool
	depth    int
	start    bool // at the beginning of the expression, a group or an alternative
	repeated bool // the last thing was a repetition
}

// peek tells whether s is next.
func (t *translator) peek(s string) bool { return strings.HasPrefix(t.in[t.at:], s) }

// next translates the next element.
func (t *translator) next() error {
	c := t.in[t.at]
	start, repeated := t.start, t.repeated
	t.start, t.repeated = false, false
	switch {
	case c == '\\':
		return t.escape(start, repeated)
	case c == '[':
		return t.bracket()
	case c == '.':
		t.at++
		t.out.WriteByte('.')
	case c == '^':
		t.at++
		if start || t.extended {
			t.out.WriteByte('^')
			t.start = true
		} else {
			t.out.WriteString(`\^`)
		}
	case c == '$':
		t.at++
		if t.extended || t.at == len(t.in) || t.peek(`\)`) || t.peek(`\|`) {
			t.out.WriteByte('$')
		} else {
			t.out.WriteString(`\$`)
		}
	case c == '*' && start:
		t.at++
		if !t.extended {
			t.out.WriteString(`\*`)
		} else {
			t.start = true
		}
	case c == '*', t.extended && !start && (c == '+' || c == '?'):
		t.at++
		t.repeat(string(c), repeated)
	case t.extended && c == '(':
		t.open()
	case t.extended && c == ')' && t.depth > 0:
		t.close()
	case t.extended && c == '|':
		t.alternative()
	case t.extended && c == '{' && !start:
		if text, n := interval(t.in[t.at+1:], "}"); n > 0 {
			t.at += 1 + n
			return t.repeatInterval(text, repeated)
		}
		t.at++
		t.out.WriteString(`\{`)
	default:
		t.literal()
	}
	return nil
}

func (t *translator) open() {
	t.out.WriteByte('(')
	t.at++
	t.depth++
	t.start = true
}

func (t *translator) close() {
	t.out.WriteByte(')')
	t.at++
	t.depth--
}

func (t *translator) alternative() {
	t.out.WriteByte('|')
	t.at++
	t.start = true
}

// repeat writes a repetition. Repeating a repetition means little, but is allowed.
func (t *translator) repeat(op string, repeated bool) {
	if repeated {
		// Go takes "a**" for an error and "a*?" for a lazy match.
		if op == "?" || op == "*" || op == "+" {
			t.widen()
		}
		t.repeated = true
		return
	}
	t.out.WriteString(op)
	t.repeated = true
}

// widen makes the last repetition match as often as two of them would.
func (t *translator) widen() {
	s := t.out.String()
	if last := s[len(s)-1]; last == '+' || last == '?' || last == '*' {
		t.out.Reset()
		t.out.WriteString(s[:len(s)-1] + "*")
	}
}

func (t *translator) repeatInterval(text string, repeated bool) error {
	if repeated {
		return errors.New("invalid preceding regular expression")
	}
	t.out.WriteString(text)
	t.repeated = true
	return nil
}

// maxRepeat is what Go allows, after which a program would grow large.
const maxRepeat = 1000

// interval reads "m,n" up to end and returns it as Go writes it; n is how much of
// s that was, 0 if it is no interval.
func interval(s, end string) (text string, n int) {
	i := strings.Index(s, end)
	if i < 0 {
		return "", 0
	}
	low, high, two := strings.Cut(s[:i], ",")
	if low == "" && two {
		low = "0"
	}
	for _, v := range []string{low, high} {
		if v == "" {
			continue
		}
		if k, err := strconv.Atoi(v); err != nil || k < 0 || k > maxRepeat {
			return "", 0
		}
	}
	if low == "" {
		return "", 0
	}
	text = "{" + low
	if two {
		text += "," + high
	}
	return text + "}", i + len(end)
}

// classEscapes are the escapes that both syntaxes share with Go.
var classEscapes = map[byte]string{
	'w': `[\pL\pN_]`, 'W': `[^\pL\pN_]`, 's': `\s`, 'S': `\S`, 'b': `\b`, 'B': `\B`, '<': `\b`, '>': `\b`, '`': `\A`, '\'': `\z`,
	'n': `\n`, 't': `\t`, 'f': `\f`, 'v': `\v`, 'r': `\r`, 'a': `\x07`,
}

// escape translates what begins with a backslash.
func (t *translator) escape(start, repeated bool) error {
	t.at++
	if t.at == len(t.in) {
		return errors.New("trailing backslash")
	}
	c := t.in[t.at]
	if text, ok := classEscapes[c]; ok {
		t.at++
		t.out.WriteString(text)
		return nil
	}
	if !t.extended {
		switch c {
		case '(':
			t.open()
			return nil
		case ')':
			if t.depth == 0 {
				return errors.New("unmatched ) or \\)")
			}
			t.close()
			return nil
		case '|':
			t.alternative()
			return nil
		case '+', '?':
			if !start {
				t.at++
				t.repeat(string(c), repeated)
				return nil
			}
		case '{':
			if start {
				return errors.New("invalid preceding regular expression")
			}
			text, n := interval(t.in[t.at+1:], `\}`)
			if n == 0 {
				return errors.New("invalid content of \\{\\}")
			}
			t.at += 1 + n
			return t.repeatInterval(text, repeated)
		}
	}
	if c >= '1' && c <= '9' {
		return ErrBackReference
	}
	t.literal()
	return nil
}

// literal translates one character that stands for itself.
func (t *translator) literal() {
	r, n := utf8.DecodeRuneInString(t.in[t.at:])
	if r == utf8.RuneError && n <= 1 {
		// A byte that is no text: Go matches such as the replacement character.
		t.out.WriteString(`\x{FFFD}`)
		t.at++
		return
	}
	t.out.WriteString(regexp.QuoteMeta(t.in[t.at : t.at+n]))
	t.at += n
}

// classes are those of POSIX.
var classes = map[string]string{
	"alpha": `\pL`, "digit": `0-9`, "alnum": `\pL\pN`, "upper": `\p{Lu}`, "lower": `\p{Ll}`, "space": `\s\x0b`, "blank": ` \t`,
	"punct": `!-/:-@\[-` + "`" + `{-~`, "print": `\x20-\x7e\x{a0}-\x{10ffff}`, "graph": `\x21-\x7e\x{a1}-\x{10ffff}`,
	"cntrl": `\x00-\x1f\x7f`, "xdigit": `0-9A-Fa-f`,
}

// bracket translates a bracket expression, in which backslashes mean themselves,
// but for those that GNU commands make of \n, \t and \].
func (t *translator) bracket() error {
	s := t.in[t.at+1:]
	var b strings.Builder
	b.WriteByte('[')
	i := 0
	if strings.HasPrefix(s, "^") {
		b.WriteByte('^')
		i++
	}
	for first := true; ; first = false {
		if i >= len(s) {
			return errors.New("unmatched [, [^, [:, [., or [=")
		}
		switch {
		case s[i] == ']' && !first:
			b.WriteByte(']')
			t.at += 1 + i + 1
			t.out.WriteString(b.String())
			return nil
		case strings.HasPrefix(s[i:], "[:"):
			end := strings.Index(s[i+2:], ":]")
			if end < 0 {
				return errors.New("unmatched [, [^, [:, [., or [=")
			}
			class, ok := classes[s[i+2:i+2+end]]
			if !ok {
				return errors.New("invalid character class name")
			}
			b.WriteString(class)
			i += 2 + end + 2
		default:
			low, n, err := element(s[i:])
			if err != nil {
				return err
			}
			i += n
			if i+1 < len(s) && s[i] == '-' && s[i+1] != ']' {
				high, n, err := element(s[i+1:])
				if err != nil {
					return err
				}
				if high < low {
					return errors.New("invalid range end")
				}
				fmt.Fprintf(&b, `\x{%x}-\x{%x}`, low, high)
				i += 1 + n
				continue
			}
			fmt.Fprintf(&b, `\x{%x}`, low)
		}
	}
}

// element reads one character of a bracket expression.
func element(s string) (r rune, n int, err error) {
	for _, kind := range []string{".", "="} {
		if rest, ok := strings.CutPrefix(s, "["+kind); ok {
			end := strings.Index(rest, kind+"]")
			if end < 0 {
				return 0, 0, errors.New("unmatched [, [^, [:, [., or [=")
			}
			r, n := utf8.DecodeRuneInString(rest[:end])
			if n != end || end == 0 {
				return 0, 0, errors.New("invalid collation character")
			}
			return r, 2 + end + 2, nil
		}
	}
	if len(s) > 1 && s[0] == '\\' {
		switch s[1] {
		case 'n':
			return '\n', 2, nil
		case 't':
			return '\t', 2, nil
		}
	}
	r, n = utf8.DecodeRuneInString(s)
	return r, n, nil
}
