package sed

import (
	"regexp"
	"strings"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/shell/posixre"
)

// address reads an address, if there is one.
func (p *parser) address(second bool) (*address, error) {
	if !p.more() {
		return nil, nil
	}
	switch c := p.in[p.at]; {
	case c == '$':
		p.at++
		return &address{kind: byLast}, nil
	case c >= '0' && c <= '9':
		n, _ := p.number()
		p.blanks(" \t")
		if p.more() && p.in[p.at] == '~' {
			p.at++
			step, _ := p.number()
			return &address{kind: byStep, line: n, step: step}, nil
		}
		if n == 0 && !second {
			return &address{kind: byZero}, nil
		}
		return &address{kind: byLine, line: n}, nil
	case second && (c == '+' || c == '~'):
		p.at++
		n, ok := p.number()
		if !ok {
			return nil, p.fail("expected number")
		}
		if c == '+' {
			return &address{kind: byOffset, offset: n}, nil
		}
		return &address{kind: byMultiple, offset: n}, nil
	case c == '/' || c == '\\':
		p.at++
		delim := c
		if c == '\\' {
			if !p.more() {
				return nil, p.fail("unexpected end of script")
			}
			delim = p.in[p.at]
			p.at++
		}
		expr, ok := p.delimited(delim, true)
		if !ok {
			return nil, p.fail("unterminated address regex")
		}
		var fl posixre.Flags
	flags:
		for p.more() {
			switch p.in[p.at] {
			case 'I':
				fl.IgnoreCase = true
			case 'M':
				fl.MultiLine = true
			default:
				break flags
			}
			p.at++
		}
		re, err := p.regexp(expr, fl)
		return &address{kind: byRegexp, re: re}, err
	}
	return nil, nil
}

// regexp compiles an expression; the empty one stands for the last one used.
func (p *parser) regexp(expr string, f posixre.Flags) (*regexp.Regexp, error) {
	if expr == "" {
		return nil, nil
	}
	f.Extended = p.opt.Extended
	re, err := posixre.Compile(expr, f)
	if err != nil {
		return nil, p.fail(err.Error())
	}
	return re, nil
}

// delimited reads up to the delimiter. An escaped delimiter loses its backslash,
// in regular expressions only if it has no meaning of its own there.
func (p *parser) delimited(delim byte, isRegexp bool) (string, bool) {
	if delim == '\n' || delim == '\\' {
		return "", false
	}
	var b strings.Builder
	bracket := false
	for p.more() {
		c := p.in[p.at]
		p.at++
		switch {
		case c == '\\' && p.more():
			next := p.in[p.at]
			p.at++
			switch {
			case next == delim && isRegexp && strings.IndexByte(".*[]^$+?(){}|", delim) >= 0:
				b.WriteString("[" + string(rune(delim)) + "]")
			case next == delim:
				b.WriteByte(delim)
			default:
				b.WriteByte('\\')
				b.WriteByte(next)
			}
			continue
		case c == '[' && isRegexp && !bracket:
			bracket = true
			b.WriteByte(c)
			// A bracket right after it, or after ^, is an element.
			for _, s := range []string{"^", "]"} {
				if strings.HasPrefix(p.in[p.at:], s) {
					b.WriteString(s)
					p.at++
				}
			}
			continue
		case c == ']' && bracket:
			bracket = false
		case bracket && c == '[' && p.more() && strings.IndexByte(":.=", p.in[p.at]) >= 0:
			if end := strings.Index(p.in[p.at+1:], string(rune(p.in[p.at]))+"]"); end >= 0 {
				b.WriteString("[" + p.in[p.at:p.at+1+end+2])
				p.at += 1 + end + 2
				continue
			}
		case c == delim && !bracket:
			return b.String(), true
		}
		b.WriteByte(c)
	}
	return "", false
}
