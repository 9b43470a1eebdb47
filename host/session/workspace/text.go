package workspace

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/backend"
)

// maxSegment is the longest file name in bytes (Linux: NAME_MAX).
const maxSegment = 255

// checkText refuses what no file name that a caller means should hold. A ".."
// segment is refused rather than resolved: what it leads to depends on links.
func checkText(p string) error {
	switch {
	case len(p) > backend.MaxPath:
		return fmt.Errorf("%w: %d bytes are more than %d", ErrPath, len(p), backend.MaxPath)
	case !utf8.ValidString(p):
		return fmt.Errorf("%w: %q is not UTF-8", ErrPath, p)
	case strings.ContainsFunc(p, unicode.IsControl):
		return fmt.Errorf("%w: %q holds a control character", ErrPath, p)
	}
	for segment := range strings.SplitSeq(p, "/") {
		if segment == ".." {
			return fmt.Errorf("%w: %q has a .. segment", ErrPath, p)
		}
		if len(segment) > maxSegment {
			return fmt.Errorf("%w: a file name of %d bytes is longer than %d", ErrPath, len(segment), maxSegment)
		}
	}
	return nil
}

func check(p string) (string, error) {
	if err := backend.CheckPath(p); err != nil {
		return "", fmt.Errorf("%w: %w", ErrPath, err)
	}
	return p, nil
}

// Quote returns s as one literal word for /bin/sh. Within single quotes nothing
// is special but the quote itself; all other bytes stay as they are. NUL cannot
// be part of a command line and is refused.
func Quote(s string) (string, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return "", fmt.Errorf("quote for the shell: %w: NUL", ErrPath)
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'", nil
}

// PromptSafe reports whether a path can stand as it is in text that a model
// reads: letters and digits of any script, marks, and a few signs, without what
// could end a line, a quotation or a code span, or hide or reorder text.
func PromptSafe(p string) bool {
	if p == "" || len(p) > backend.MaxPath || !utf8.ValidString(p) || strings.TrimSpace(p) != p {
		return false
	}
	return !strings.ContainsFunc(p, func(r rune) bool {
		return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
			(!unicode.In(r, unicode.L, unicode.M, unicode.N) && !slices.Contains(promptSigns, r))
	})
}

var promptSigns = []rune("/._-+,=@%~#()[] ")
