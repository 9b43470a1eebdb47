package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// What plugins, their files and their callers say is printed so that it cannot steer
// the terminal or look like something that this program says.

// printJSON prints v, indented.
func printJSON(w io.Writer, v any) error { return encode(w, v, "  ") }

// printJSONLine prints v in one line.
func printJSONLine(w io.Writer, v any) error { return encode(w, v, "") }

func encode(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escapeJSON(b.Bytes()))
	return err
}

// escapeJSON escapes what encoding/json leaves in strings: delete, the second set of
// control characters, and what changes the direction of writing.
func escapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, inert) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if !inert(r) {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.Bytes()
}

// inert reports whether a rune of JSON's text prints nothing. Line ends are the
// encoder's own.
func inert(r rune) bool { return r != '\n' && r != ' ' && !unicode.IsPrint(r) }

// safe is a line of text with what prints nothing escaped, and tabs as spaces.
func safe(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\t':
			b.WriteString("    ")
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case !unprintable(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		s = s[n:]
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// table prints rows in columns, each cell made safe.
type table struct{ tw *tabwriter.Writer }

func newTable(w io.Writer, heads ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(heads) > 0 {
		t.row(heads...)
	}
	return t
}

func (t table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = safe(c)
	}
	fmt.Fprintln(t.tw, strings.Join(cells, "\t"))
}

func (t table) flush() error { return t.tw.Flush() }
