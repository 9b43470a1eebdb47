package backend

import (
	"fmt"
	"strings"

	"github.com/caisson-run/caisson/sdk/backend/files"
)

// MaxPath is the longest path in bytes (Linux: PATH_MAX less its terminator).
const MaxPath = files.MaxPath

// CheckPath reports what is wrong with a path inside a sandbox; see files.CheckPath.
func CheckPath(p string) error { return files.CheckPath(p) }

// Within reports whether p is root or below it, segment by segment. Both pass
// CheckPath.
func Within(root, p string) bool { return files.Within(root, p) }

// Excluded reports whether a base name matches a list in the form of
// CollectSpec.Exclude: exact, or "*" and a suffix.
func Excluded(exclude []string, name string) bool { return files.Excluded(exclude, name) }

// checkName is for what becomes one path segment.
func checkName(name string) error {
	switch {
	case name == "", name == ".", name == "..":
		return fmt.Errorf("%q is no file name", name)
	case len(name) > 255:
		return fmt.Errorf("file name is %d bytes long, more than 255", len(name))
	case strings.ContainsAny(name, "/\x00"):
		return fmt.Errorf("file name %q contains a slash or NUL", name)
	}
	return nil
}
