package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Error is one thing that is wrong with a manifest, and where. Parse and Load
// join several of them (errors.Join) in the order of the file; errors.As finds
// the first.
type Error struct {
	// File is the name given to Parse, or the path that Load read.
	File string
	// Line and Column count from 1, columns in characters. They lie within the
	// file, or just behind the end of a line.
	Line, Column int
	// Field is the key as a path, such as limits.memory or env[2]. It is empty
	// for errors of syntax.
	Field string
	// Reason says what the rule is, and what to write instead where that helps.
	Reason string
}

func (e *Error) Error() string {
	at := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Field == "" {
		return at + e.Reason
	}
	return at + printable(e.Field) + ": " + e.Reason
}

// DigestError says that an artifact is not the one its manifest pins.
type DigestError struct {
	Plugin string
	// Path is the artifact's path inside the plugin directory.
	Path string
	// Expected is pinned by the manifest, Actual that of the file: 64 lower-case
	// hexadecimal digits.
	Expected, Actual string
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("plugin %q: %s does not match its manifest: expected sha256 %s, actual %s: "+
		"install the plugin again, or, if this is the file you trust, set sha256 in %s to the actual value",
		e.Plugin, e.Path, e.Expected, e.Actual, FileName)
}

// ProtocolError says that a plugin and this host have no version of the
// plugin's contract in common.
type ProtocolError struct {
	Plugin string
	// Speaks is what the plugin offers, Host what the host offers, ascending.
	Speaks, Host []int
}

func (e *ProtocolError) Error() string {
	msg := fmt.Sprintf("plugin %q speaks protocol %s, this host speaks %s: ",
		e.Plugin, joinInts(e.Speaks), joinInts(e.Host))
	switch {
	case len(e.Speaks) == 0 || len(e.Host) == 0:
		return msg + "nothing to agree on"
	case slices.Max(e.Speaks) < slices.Min(e.Host):
		return msg + "upgrade the plugin"
	case slices.Min(e.Speaks) > slices.Max(e.Host):
		return msg + "upgrade the host"
	default:
		return msg + "install a version of the plugin that speaks one of the host's"
	}
}

// ConfigError is one thing that is wrong with an operator's configuration of a
// plugin. It names the rule, never the value, which may be a secret.
type ConfigError struct {
	Plugin string
	// Field is a JSON pointer (RFC 6901), empty for the whole configuration.
	Field string
	Rule  string
}

func (e *ConfigError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("plugin %q: config: %s", e.Plugin, e.Rule)
	}
	return fmt.Sprintf("plugin %q: config %s: %s", e.Plugin, printable(e.Field), e.Rule)
}

// maxErrors bounds how many errors one reading reports.
const maxErrors = 50

// report collects the errors of one file.
type report struct {
	file string
	// lines is the file. The YAML library places what is left out, such as the
	// value in "key:", one column further than the line goes, and what is missing
	// at the end of the file further still.
	lines []string
	errs  []*Error
}

func (r *report) fail(p pos, field, format string, args ...any) {
	if len(r.errs) >= maxErrors {
		return
	}
	if len(r.lines) > 0 {
		p.line = min(max(p.line, 1), len(r.lines))
		p.col = min(max(p.col, 1), utf8.RuneCountInString(r.lines[p.line-1])+1)
	}
	r.errs = append(r.errs, &Error{r.file, p.line, p.col, field, fmt.Sprintf(format, args...)})
}

// err joins what was collected, in the order of the file.
func (r *report) err() error {
	slices.SortStableFunc(r.errs, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	errs := make([]error, len(r.errs))
	for i, e := range r.errs {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// printable shortens and, where needed, quotes text that came from a file, so
// that it cannot forge lines or colours on a terminal.
func printable(s string) string {
	const most = 120
	if len(s) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	if q := fmt.Sprintf("%q", s); q != `"`+s+`"` {
		return q
	}
	return s
}

// nearest suggests what was meant by an unknown word, as a clause to append.
func nearest(word string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(word, k, distance); d < distance && d < len(k) {
			best, distance = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf(" (did you mean %s?)", printable(best))
	}
	if len(known) == 0 || len(known) > 24 {
		return ""
	}
	list := make([]string, len(known))
	for i, k := range known {
		list[i] = printable(k)
	}
	return " (known: " + strings.Join(list, ", ") + ")"
}

// editDistance is the Levenshtein distance of two words, or limit when it is
// at least that. The limit keeps long hostile words cheap.
func editDistance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return min(row[len(b)], limit)
}

func joinInts(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}
