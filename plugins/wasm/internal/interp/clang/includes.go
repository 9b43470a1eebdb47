package clang

import (
	"bytes"
	"regexp"
)

// includeLine is a line that includes a header by its name in angle brackets, and
// pragmaLine one that asks another compiler to optimise; both may end in a comment
// of one line.
var (
	includeLine = regexp.MustCompile(`^[ \t]*#[ \t]*include[ \t]*<([^<>\\]+)>[ \t]*(//[^\\]*)?$`)
	pragmaLine  = regexp.MustCompile(`^[ \t]*#[ \t]*pragma[ \t]+GCC[ \t]+(optimize|target)[ \t]*\([^\\]*$`)
)

// leadingIncludes returns the headers that a source includes before anything else.
// With none but standard headers in front, whose order means nothing, it is the same
// to the compiler which of them it reads first: that is what lets one be read ahead
// of time. Anything that it does not know for certain ends the list.
func leadingIncludes(source []byte) (headers []string) {
	source = bytes.TrimPrefix(source, []byte("\xef\xbb\xbf"))
	for len(source) > 0 {
		line, rest, _ := bytes.Cut(source, []byte("\n"))
		line = bytes.TrimRight(line, " \t\r")
		blank := bytes.TrimLeft(line, " \t")
		switch {
		case bytes.HasPrefix(blank, []byte("/*")):
			start := bytes.Index(source, []byte("/*"))
			end := bytes.Index(source[start+2:], []byte("*/"))
			if end < 0 {
				return headers
			}
			source = source[start+2+end+2:]
			continue
		case len(blank) == 0, bytes.HasPrefix(blank, []byte("//")) && !bytes.HasSuffix(blank, []byte(`\`)), pragmaLine.Match(line):
		default:
			m := includeLine.FindSubmatch(line)
			if m == nil {
				return headers
			}
			headers = append(headers, string(m[1]))
		}
		source = rest
	}
	return headers
}
