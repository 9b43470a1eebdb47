package sed

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/posixre"
)

// substitution reads s/expression/replacement/flags.
func (p *parser) substitution() (*substitution, error) {
	if !p.more() {
		return nil, p.fail("unterminated `s' command")
	}
	delim := p.in[p.at]
	p.at++
	expr, ok := p.delimited(delim, true)
	if !ok {
		return nil, p.fail("unterminated `s' command")
	}
	replacement, ok := p.replacement(delim)
	if !ok {
		return nil, p.fail("unterminated `s' command")
	}
	s := &substitution{nth: 1}
	var fl posixre.Flags
	numbered := false
flags:
	for p.more() {
		switch c := p.in[p.at]; c {
		case 'g':
			s.global = true
		case 'p':
			s.print = true
		case 'i', 'I':
			fl.IgnoreCase = true
		case 'm', 'M':
			fl.MultiLine = true
		case 'e':
			return nil, p.fail("the flag e is not available")
		case 'w':
			p.at++
			p.blanks(" \t")
			s.file, s.hasFile = p.line(), true
			if s.file == "" {
				return nil, p.fail("missing filename in r/R/w/W commands")
			}
			break flags
		default:
			if c < '0' || c > '9' {
				break flags
			}
			n, _ := p.number()
			if n == 0 || numbered {
				return nil, p.fail("number option to `s' command may not be zero")
			}
			s.nth, numbered = n, true
			continue
		}
		p.at++
	}
	if !s.hasFile && p.more() && strings.IndexByte(" \t;\n}#", p.in[p.at]) < 0 {
		p.at++
		return nil, p.fail("unknown option to `s'")
	}
	var err error
	if s.re, err = p.regexp(expr, fl); err != nil {
		return nil, err
	}
	s.parts = split(replacement)
	if s.re != nil {
		for _, part := range s.parts {
			if part.group > s.re.NumSubexp() {
				return nil, p.fail("invalid reference \\" + string(rune('0'+part.group)) + " on `s' command's RHS")
			}
		}
	}
	return s, nil
}

// replacement reads up to the delimiter and keeps escapes, but for that of the
// delimiter.
func (p *parser) replacement(delim byte) (string, bool) {
	var b strings.Builder
	for p.more() {
		c := p.in[p.at]
		p.at++
		switch {
		case c == delim:
			return b.String(), true
		case c == '\\' && p.more():
			next := p.in[p.at]
			p.at++
			if next != delim || next == '&' {
				b.WriteByte('\\')
			}
			b.WriteByte(next)
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// split takes a replacement apart.
func split(s string) (parts []part) {
	var text strings.Builder
	var fold byte
	flush := func() {
		if text.Len() > 0 {
			parts = append(parts, part{text.String(), -1, fold})
			text.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '&' {
			flush()
			parts = append(parts, part{"", 0, fold})
			continue
		}
		if c != '\\' || i+1 == len(s) {
			text.WriteByte(c)
			continue
		}
		i++
		switch c = s[i]; c {
		case 'n':
			text.WriteByte('\n')
		case 't':
			text.WriteByte('\t')
		case 'r':
			text.WriteByte('\r')
		case 'f':
			text.WriteByte('\f')
		case 'v':
			text.WriteByte('\v')
		case 'a':
			text.WriteByte('\a')
		case 'U', 'L', 'E':
			flush()
			if fold = c; c == 'E' {
				fold = 0
			}
		case 'u', 'l':
			// For the next character only.
			flush()
			parts = append(parts, part{"", -1, c})
		default:
			if c >= '0' && c <= '9' {
				flush()
				parts = append(parts, part{"", int(c - '0'), fold})
			} else {
				text.WriteByte(c)
			}
		}
	}
	flush()
	return parts
}

// apply substitutes in text and tells whether anything was.
func (s *substitution) apply(re *regexp.Regexp, text string) (string, bool) {
	var b strings.Builder
	last, count, done := 0, 0, false
	for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
		count++
		if count < s.nth {
			continue
		}
		b.WriteString(text[last:m[0]])
		s.expand(&b, text, m)
		last, done = m[1], true
		if !s.global {
			break
		}
	}
	if !done {
		return text, false
	}
	b.WriteString(text[last:])
	return b.String(), true
}

// expand writes the replacement of one match.
func (s *substitution) expand(b *strings.Builder, text string, m []int) {
	var once byte
	for _, p := range s.parts {
		if p.fold == 'u' || p.fold == 'l' {
			once = p.fold
			continue
		}
		t := p.text
		if p.group >= 0 {
			t = ""
			if 2*p.group+1 < len(m) && m[2*p.group] >= 0 {
				t = text[m[2*p.group]:m[2*p.group+1]]
			}
		}
		switch p.fold {
		case 'U':
			t = strings.ToUpper(t)
		case 'L':
			t = strings.ToLower(t)
		}
		if once != 0 && t != "" {
			r, n := utf8.DecodeRuneInString(t)
			if once == 'u' {
				r = unicode.ToUpper(r)
			} else {
				r = unicode.ToLower(r)
			}
			t = string(r) + t[n:]
			once = 0
		}
		b.WriteString(t)
	}
}
