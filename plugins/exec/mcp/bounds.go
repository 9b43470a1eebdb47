package mcp

import (
	"fmt"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/exec/internal/runes"
)

// abridged brings a text within a number of bytes: its beginning and its end stay, since
// errors are at the end. It reports whether something was left out.
func abridged(s string, limit int) (string, bool) {
	if len(s) <= limit {
		return s, false
	}
	head, tail := runes.Cut(s, limit*3/4), cutBefore(s[len(s)-limit/4:])
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s", head, len(s)-len(head)-len(tail), tail), true
}

// cutBefore drops what is left of a character from the beginning of a piece.
func cutBefore(s string) string {
	most := min(utf8.UTFMax, len(s))
	for i := range most {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s[most:]
}
