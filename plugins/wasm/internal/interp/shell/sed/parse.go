package sed

import (
	"strings"
	"unicode/utf8"
)

// Parse reads a script.
func Parse(source string, o Options) (*Script, error) {
	if len(source) > MaxScript {
		return nil, &Error{1, "script too long"}
	}
	p := &parser{in: source, opt: o, labels: map[string]int{}}
	if err := p.commands(); err != nil {
		return nil, err
	}
	for i := range p.out {
		c := &p.out[i]
		if strings.IndexByte("btT", c.name) >= 0 {
			at, ok := p.labels[c.text]
			switch {
			case c.text == "":
				c.jump = len(p.out)
			case !ok:
				return nil, &Error{len(source), "can't find label for jump to `" + c.text + "'"}
			default:
				c.jump = at
			}
		}
	}
	return &Script{p.out, o}, nil
}

type parser struct {
	in     string
	at     int
	opt    Options
	out    []command
	labels map[string]int
	blocks []int
}

func (p *parser) fail(text string) error { return &Error{p.at, text} }

func (p *parser) more() bool { return p.at < len(p.in) }

// blanks skips spaces, and with newlines also ends of commands.
func (p *parser) blanks(set string) {
	for p.more() && strings.IndexByte(set, p.in[p.at]) >= 0 {
		p.at++
	}
}

func (p *parser) commands() error {
	for {
		p.blanks(" \t\n;")
		if !p.more() {
			break
		}
		if err := p.command(); err != nil {
			return err
		}
	}
	if len(p.blocks) > 0 {
		return p.fail("unmatched `{'")
	}
	return nil
}

func (p *parser) command() (err error) {
	var c command
	if c.from, err = p.address(false); err != nil {
		return err
	}
	p.blanks(" \t")
	if c.from != nil && p.more() && p.in[p.at] == ',' {
		p.at++
		p.blanks(" \t")
		if c.to, err = p.address(true); err != nil {
			return err
		}
		if c.to == nil {
			return p.fail("unexpected `,'")
		}
	}
	if c.from != nil && c.from.kind == byZero && (c.to == nil || c.to.kind != byRegexp) {
		return p.fail("invalid usage of line address 0")
	}
	p.blanks(" \t")
	for p.more() && p.in[p.at] == '!' {
		c.not = true
		p.at++
		p.blanks(" \t")
	}
	if !p.more() {
		return p.fail("missing command")
	}
	c.name = p.in[p.at]
	p.at++
	return p.arguments(c)
}

// arguments reads what follows the name of a command.
func (p *parser) arguments(c command) (err error) {
	switch c.name {
	case '#':
		if c.from != nil {
			return p.fail("comments don't accept any addresses")
		}
		p.line()
		return nil
	case ':':
		if c.from != nil {
			return p.fail(": doesn't want any addresses")
		}
		p.blanks(" \t")
		label := p.label()
		if label == "" {
			return p.fail("\":\" lacks a label")
		}
		p.labels[label] = len(p.out)
		return nil
	case '{':
		if len(p.blocks) >= maxDepth {
			return p.fail("too many nested blocks")
		}
		p.blocks = append(p.blocks, len(p.out))
		p.out = append(p.out, c)
		return nil
	case '}':
		if c.from != nil {
			return p.fail("} doesn't want any addresses")
		}
		if len(p.blocks) == 0 {
			return p.fail("unexpected `}'")
		}
		open := p.blocks[len(p.blocks)-1]
		p.blocks = p.blocks[:len(p.blocks)-1]
		p.out[open].jump = len(p.out)
		return p.end()
	case 'a', 'i', 'c':
		c.text, err = p.text()
		p.out = append(p.out, c)
		return err
	case 'b', 't', 'T':
		p.blanks(" \t")
		c.text = p.label()
	case 'r', 'R', 'w', 'W':
		p.blanks(" \t")
		if c.text = p.line(); c.text == "" {
			return p.fail("missing filename in r/R/w/W commands")
		}
		p.out = append(p.out, c)
		return nil
	case 'q', 'Q', 'l', 'L':
		p.blanks(" \t")
		c.number, _ = p.number()
	case 's':
		if c.subst, err = p.substitution(); err != nil {
			return err
		}
		if c.subst.hasFile {
			p.out = append(p.out, c)
			return nil
		}
	case 'y':
		if c.from2, err = p.transliteration(); err != nil {
			return err
		}
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
	case 'e':
		return p.fail("the command e is not available")
	default:
		return p.fail("unknown command: `" + string(rune(c.name)) + "'")
	}
	p.out = append(p.out, c)
	return p.end()
}

// end expects nothing more of a command.
func (p *parser) end() error {
	p.blanks(" \t")
	if !p.more() || strings.IndexByte(";\n}#", p.in[p.at]) >= 0 {
		return nil
	}
	p.at++
	return p.fail("extra characters after command")
}

// line takes the rest of the line.
func (p *parser) line() string {
	line, _, _ := strings.Cut(p.in[p.at:], "\n")
	p.at += len(line)
	return line
}

func (p *parser) label() string {
	rest := p.in[p.at:]
	n := strings.IndexAny(rest, ";\n}")
	if n < 0 {
		n = len(rest)
	}
	p.at += n
	return strings.TrimRight(rest[:n], " \t")
}

func (p *parser) number() (int, bool) {
	n, digits := 0, 0
	for p.more() && p.in[p.at] >= '0' && p.in[p.at] <= '9' {
		n = min(n*10+int(p.in[p.at]-'0'), 1<<30)
		p.at++
		digits++
	}
	return n, digits > 0
}

// text reads what a, i and c insert.
func (p *parser) text() (string, error) {
	p.blanks(" \t")
	if p.more() && p.in[p.at] == '\\' {
		p.at++
		rest := p.in[p.at:]
		if trimmed := strings.TrimLeft(rest, " \t"); strings.HasPrefix(trimmed, "\n") {
			p.at += len(rest) - len(trimmed) + 1
		} else if strings.HasPrefix(rest, "t") || rest == "" {
			p.at-- // not a marker but an escape
		}
	}
	if !p.more() {
		return "", p.fail("expected \\ after `a', `c' or `i'")
	}
	var b strings.Builder
	for p.more() && p.in[p.at] != '\n' {
		c := p.in[p.at]
		p.at++
		if c == '\\' && p.more() {
			c = p.in[p.at]
			p.at++
			if c == 't' {
				c = '\t'
			}
		}
		b.WriteByte(c)
	}
	return b.String() + "\n", nil
}

// transliteration reads y/abc/xyz/.
func (p *parser) transliteration() (map[rune]rune, error) {
	if !p.more() {
		return nil, p.fail("unterminated `y' command")
	}
	delim := p.in[p.at]
	p.at++
	from, ok1 := p.delimited(delim, false)
	to, ok2 := p.delimited(delim, false)
	if !ok1 || !ok2 {
		return nil, p.fail("unterminated `y' command")
	}
	a, b := unescape(from), unescape(to)
	if len(a) != len(b) {
		return nil, p.fail("strings for `y' command are different lengths")
	}
	m := make(map[rune]rune, len(a))
	for i, r := range a {
		if _, ok := m[r]; !ok {
			m[r] = b[i]
		}
	}
	return m, nil
}

// unescape resolves backslashes of y.
func unescape(s string) []rune {
	var out []rune
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		s = s[n:]
		if r == '\\' && len(s) > 0 {
			r, n = utf8.DecodeRuneInString(s)
			s = s[n:]
			switch r {
			case 'n':
				r = '\n'
			case 't':
				r = '\t'
			}
		}
		out = append(out, r)
	}
	return out
}
