package prelude

import (
	_ "embed"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/caisson-run/caisson/sdk/backend/control"
)

//go:embed prelude.py
var pythonText string

// Python returns a program that runs code with an async function for each tool. Code is a
// body: it may await at its top level, and may also run event loops of its own. It runs as
// the main module, under its own line numbers.
func Python(tools []Tool, code string) []byte {
	type function struct {
		Name        string      `json:"name"`
		Identifier  string      `json:"identifier"`
		Description string      `json:"description"`
		Parameters  []parameter `json:"parameters"`
	}
	job := struct {
		Code  string     `json:"code"`
		Tools []function `json:"tools"`
		// Open is how many calls may be open at once, Bytes what one input may have.
		Open  int `json:"open"`
		Bytes int `json:"bytes"`
	}{Code: code, Tools: []function{}, Open: control.MaxOpen, Bytes: control.MaxValue}
	ids := numbered(tools, pythonName)
	for i, t := range tools {
		job.Tools = append(job.Tools, function{
			Name: t.Name, Identifier: ids[i], Description: t.Description, Parameters: parameters(t.Parameters),
		})
	}
	text, err := json.Marshal(job)
	if err != nil {
		panic(err) // strings, numbers and booleans only
	}
	return []byte("exec(compile(" + literal(pythonText) + `, "<tools>", "exec"), {"job": ` + literal(ascii(string(text))) + "})\n")
}

// literal writes a text in ASCII as a Python literal: in this JSON and Python are alike.
func literal(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // it is a string
	}
	return string(b)
}

// ascii writes JSON without any character beyond ASCII.
func ascii(text string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	b.Grow(len(text))
	unit := func(u uint16) {
		b.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			b.WriteByte(hex[u>>shift&15])
		}
	}
	for _, c := range text {
		switch {
		case c < 0x7f:
			b.WriteRune(c)
		case c < 0x10000:
			unit(uint16(c))
		default:
			hi, lo := utf16.EncodeRune(c)
			unit(uint16(hi))
			unit(uint16(lo))
		}
	}
	return b.String()
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
