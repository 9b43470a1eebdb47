package files

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// MaxPath is the longest path in bytes (Linux: PATH_MAX less its terminator).
const MaxPath = 4095

// CheckPath reports what is wrong with a path inside a sandbox: it has to be
// absolute and in its shortest form, without "." or ".." segments, doubled or
// trailing slashes, or NUL. It looks at the text only: links are the backend's
// business, and it follows none.
func CheckPath(p string) error {
	switch {
	case p == "":
		return errors.New("path is empty")
	case len(p) > MaxPath:
		return fmt.Errorf("path is %d bytes long, more than %d", len(p), MaxPath)
	case strings.IndexByte(p, 0) >= 0:
		return errors.New("path contains NUL")
	case p[0] != '/':
		return fmt.Errorf("path %q is not absolute", p)
	case slices.Contains(strings.Split(p, "/"), ".."):
		return fmt.Errorf("path %q contains a .. segment", p)
	case path.Clean(p) != p:
		return fmt.Errorf("path %q is not in its shortest form %q", p, path.Clean(p))
	}
	return nil
}

// Within reports whether p is root or below it, segment by segment. Both pass
// CheckPath.
func Within(root, p string) bool {
	return p == root || root == "/" || strings.HasPrefix(p, root) && p[len(root)] == '/'
}

// Excluded reports whether a base name matches a list in the form of
// CollectSpec.Exclude: exact, or "*" and a suffix.
func Excluded(exclude []string, name string) bool {
	return slices.ContainsFunc(exclude, func(pattern string) bool {
		if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
			return strings.HasSuffix(name, suffix)
		}
		return name == pattern
	})
}
