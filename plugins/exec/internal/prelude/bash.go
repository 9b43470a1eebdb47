package prelude

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/caisson-run/caisson/sdk/backend/control"
)

// Bash returns code with a function for each tool in front of it:
//
//	tool '{"city":"SF"}'
//
// prints the result as one line of JSON, and fails with a message on stderr. The
// functions stand on the first line of code, so that the shell counts lines as the
// author does. Two tools of one name are a *CollisionError.
func Bash(tools []Tool, code string) ([]byte, error) {
	var b bytes.Buffer
	by := make(map[string]string, len(tools))
	for _, t := range tools {
		id := shellName(t.Name)
		if first, ok := by[id]; ok {
			return nil, &CollisionError{First: first, Second: t.Name, Identifier: id}
		}
		by[id] = t.Name
		b.WriteString(id + `() { "$` + control.EnvCall + `" ` + quote(t.Name) + ` "$@"; }; `)
	}
	return append(b.Bytes(), code...), nil
}

// quote makes one word of s.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// shellName is the function's name for a tool.
func shellName(name string) string {
	s := normalize(name, func(c rune) bool { return c == '-' || c == '.' || unicode.IsSpace(c) })
	switch {
	case s == "":
		return "tool"
	case shellWords[s], strings.HasPrefix(s, "_ptc_"):
		return s + "_tool"
	}
	return s
}

// shellWords are what a function must not replace: Bash's reserved words and builtins.
var shellWords = words(`
	if then elif else fi for while until do done case esac in function select time coproc
	alias bg bind break builtin caller cd command compgen complete compopt continue declare
	dirs disown echo enable eval exec exit export false fc fg getopts hash help history
	jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly return
	set shift shopt source suspend test times trap true type typeset ulimit umask unalias
	unset wait`)

func words(s string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(s) {
		m[w] = true
	}
	return m
}
