package prelude

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/backend/control"
)

//go:embed prelude.py
var pythonText string

// Python returns a program that runs code with an async function for each tool. Code is a
// body: it may await at its top level, and may also run event loops of its own. It runs as
// the main module, under its own line numbers.
func Python(tools []Tool, code string) []byte {
	type function struct {
		Name       string      `json:"name"`
		Identifier string      `json:"identifier"`
		Parameters []parameter `json:"parameters"`
	}
	job := struct {
		Tools []function `json:"tools"`
		// Open is how many calls may be open at once, Bytes what one input may have.
		Open  int `json:"open"`
		Bytes int `json:"bytes"`
	}{Tools: []function{}, Open: control.MaxOpen, Bytes: control.MaxValue}
	ids := numbered(tools, pythonName)
	for i, t := range tools {
		job.Tools = append(job.Tools, function{
			Name: t.Name, Identifier: ids[i], Parameters: parameters(t.Parameters),
		})
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(job); err != nil {
		panic(err) // strings, numbers and booleans only
	}
	const around = len(`exec(compile(, "<tools>", "exec"), {"job": , "about": [], "code": })`) + 1
	size := around + literalSize(pythonText) + literalSize(text.Bytes()) + literalSize(code)
	for _, t := range tools {
		size += literalSize(t.Description) + 1
	}
	out := appendLiteral(append(make([]byte, 0, size), `exec(compile(`...), pythonText)
	out = appendLiteral(append(out, `, "<tools>", "exec"), {"job": `...), text.Bytes())
	out = append(out, `, "about": [`...)
	for _, t := range tools { // texts that may be long
		out = append(appendLiteral(out, t.Description), ',')
	}
	out = appendLiteral(append(out, `], "code": `...), code)
	return append(out, "})\n"...)
}

// appendLiteral writes UTF-8 as a Python literal in ASCII. But for control characters nothing
// takes more than three times its bytes.
func appendLiteral[T string | []byte](b []byte, text T) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(text); {
		c, n := rune(text[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
		}
		i += n
		digits := 0
		switch {
		case c == '\n':
			b = append(b, `\n`...)
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c >= ' ' && c < 0x7f:
			b = append(b, byte(c))
		case c < 0x100:
			b, digits = append(b, `\x`...), 2
		case c < 0x10000:
			b, digits = append(b, `\u`...), 4
		default:
			b, digits = append(b, `\U`...), 8
		}
		for digits--; digits >= 0; digits-- {
			b = append(b, hex[c>>(4*digits)&15])
		}
	}
	return append(b, '"')
}

// literalSize is how many bytes appendLiteral appends at most to valid UTF-8.
func literalSize[T string | []byte](text T) int {
	n := len(text) + 2
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\' || c == '\n':
			n++
		case c < ' ', c == 0x7f, c >= 0xe0 && c < 0xf0:
			n += 3
		case c >= 0xf0:
			n += 6
		case c >= 0xc0:
			n += 4
		}
	}
	return n
}

// pythonName is the function's name for a tool.
func pythonName(name string) string {
	s := normalize(name, func(c rune) bool { return c == '-' || unicode.IsSpace(c) })
	switch {
	case s == "":
		return "tool"
	case pythonWords[s], reserved(s):
		return s + "_tool"
	}
	return s
}

// reserved reports whether Python keeps a name for itself: a function in the place of
// __builtins__ or __name__ would break the program around it.
func reserved(s string) bool {
	return len(s) > 4 && strings.HasPrefix(s, "__") && strings.HasSuffix(s, "__")
}

// pythonWords are Python's keywords.
var pythonWords = words(`
	False None True and as assert async await break class continue def del elif else except
	finally for from global if import in is lambda nonlocal not or pass raise return try
	while with yield`)
