package main

import "strings"

// family is how a language writes comments and strings, as far as a guard has to know.
type family struct {
	line   []string // beginnings of comments to the end of the line
	block  bool     // comments between /* and */
	quotes string   // delimiters of strings; a backslash escapes
	triple bool     // strings between three quotes
	lines  bool     // strings go on after the end of a line; in shells, and between `, always
	plain  bool     // a backslash in a string is one
	raw    bool     // r"..." and r#"..."# take no escapes, and '"' is no string
	shell  bool     // # begins a comment only where a word does; single quotes take no escapes
}

var families = map[string]family{
	"py":   {line: []string{"#"}, quotes: `"'`, triple: true},
	"r":    {line: []string{"#"}, quotes: `"'`, lines: true},
	"rb":   {line: []string{"#"}, quotes: `"'`, lines: true},
	"pl":   {line: []string{"#"}, quotes: `"'`, lines: true},
	"bash": {line: []string{"#"}, quotes: `"'`, shell: true},
	"php":  {line: []string{"//", "#"}, block: true, quotes: `"'`, lines: true},
	"rs":   {line: []string{"//"}, block: true, quotes: `"`, lines: true, raw: true},
	"f90":  {line: []string{"!"}, quotes: `"'`},
	"sql":  {line: []string{"--"}, block: true, quotes: `'"`, lines: true, plain: true},
}

// other is for everything that looks like C.
var other = family{line: []string{"//"}, block: true, quotes: "\"'`"}

func familyOf(language string) family {
	if f, ok := families[language]; ok {
		return f
	}
	return other
}

// source is a program with its comments blanked. Offsets are those of the original.
type source struct {
	text string
	// code is text without what is in strings.
	code string
	// quoted has a bit for each byte that is inside of a string.
	quoted []byte
}

// inPlace stands in source.code for each byte of a string: it is neither a space nor
// part of a word.
const inPlace = 0

// plainText is text without comments and strings.
func plainText(text string) source { return source{text, text, make([]byte, len(text)/8+1)} }

func (s *source) inString(at int) bool { return s.quoted[at/8]&(1<<(at%8)) != 0 }

// lex reads a program once, from the front to the back.
func lex(language, text string) source {
	f := familyOf(language)
	s := source{quoted: make([]byte, len(text)/8+1)}
	out := []byte(text)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(text); {
		switch end := f.comment(text, i); {
		case end > i:
			blank(i, end)
			i = end
		case strings.IndexByte(f.quotes, text[i]) >= 0:
			end := f.string(text, i)
			for k := i + 1; k < end; k++ {
				s.quoted[k/8] |= 1 << (k % 8)
			}
			i = end
		case f.shell && text[i] == '\\':
			i += 2
		case f.raw && strings.HasPrefix(text[i:], `'"'`):
			i += 3
		case f.raw && strings.HasPrefix(text[i:], `'\"'`):
			i += 4
		default:
			i++
		}
	}
	s.text = string(out)
	for i := range out {
		if s.inString(i) && out[i] != '\n' {
			out[i] = inPlace
		}
	}
	s.code = string(out)
	return s
}

// comment returns the end of the comment that begins at i, or i.
func (f family) comment(text string, i int) int {
	if f.block && strings.HasPrefix(text[i:], "/*") {
		if n := strings.Index(text[i+2:], "*/"); n >= 0 {
			return i + 2 + n + 2
		}
		return len(text)
	}
	for _, mark := range f.line {
		if !strings.HasPrefix(text[i:], mark) {
			continue
		}
		if f.shell && i > 0 && !strings.ContainsRune(" \t\n;|&(", rune(text[i-1])) {
			continue
		}
		if strings.HasPrefix(text[i:], "#!") && i == 0 {
			continue
		}
		if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
			return i + n
		}
		return len(text)
	}
	return i
}

// string returns the end of the string that begins at i: behind its last quote, or
// where the line ends if it is not closed there and must be.
func (f family) string(text string, i int) int {
	q := text[i]
	if three := text[i:min(i+3, len(text))]; f.triple && three == strings.Repeat(string(q), 3) {
		if n := strings.Index(text[i+3:], three); n >= 0 {
			return i + 3 + n + 3
		}
		return len(text)
	}
	if f.raw {
		if marks, ok := rawMarks(text, i); ok {
			if n := strings.Index(text[i+1:], string(q)+marks); n >= 0 {
				return i + 1 + n + 1 + len(marks)
			}
			return len(text)
		}
	}
	for k := i + 1; k < len(text); k++ {
		switch {
		case text[k] == q:
			return k + 1
		case text[k] == '\\' && !f.plain && !(f.shell && q == '\''):
			k++
		case text[k] == '\n' && !f.shell && q != '`' && !f.lines:
			return k
		}
	}
	return len(text)
}

// rawMarks is what has to follow the last quote of the string that begins at i, if it
// is a raw one: as many # as are before the first, behind an r.
func rawMarks(text string, i int) (marks string, ok bool) {
	r := i - 1
	for r >= 0 && text[r] == '#' {
		r--
	}
	return text[r+1 : i], r >= 0 && text[r] == 'r' && !inWord(strings.TrimRight(text[max(0, r-1):r], "bc"))
}

// inWord reports whether text ends in the middle of a word.
func inWord(text string) bool {
	if text == "" {
		return false
	}
	c := text[len(text)-1]
	return c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80
}
