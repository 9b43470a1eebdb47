// Package names decides which file names from the wire become paths below the
// data directory of a sandbox, and how names are shown to people.
//
// It looks at text only. That a path stays inside the directory when it is used,
// whatever links lie there, is the backend's business.
package names

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/backend"
	"golang.org/x/text/unicode/norm"
)

// Bounds of a name. Segments are those of every file system in use, the rest
// keeps listings and replies sane.
const (
	MaxBytes        = 1024
	MaxSegments     = 16
	MaxSegmentBytes = 255
)

// MaxRaw bounds a name before it is normalised: NFC leaves more than a quarter of the bytes
// of a text (U+1FBE U+0308 U+0301 becomes U+0390), so that nothing longer comes within
// MaxBytes, root and all.
const MaxRaw = 5 * MaxBytes

// root is what a client may put in front of a name: it is the path that the
// model was told.
const root = backend.DataDir + "/"

var errTooLong = fmt.Errorf("is longer than %d bytes", MaxBytes)

// Ref turns the name of an input ref into a path relative to the data directory.
// The name is where the client promised the file to be, so it is refused rather
// than repaired (docs/wire.md).
func Ref(name string) (string, error) {
	if len(name) > MaxRaw {
		return "", errTooLong
	}
	if !utf8.ValidString(name) {
		return "", errors.New("is not valid UTF-8")
	}
	name = norm.NFC.String(strings.TrimPrefix(name, root))
	if strings.Contains(name, `\`) {
		return "", errors.New("contains a backslash")
	}
	if err := check(name); err != nil {
		return "", err
	}
	return name, nil
}

// Announce turns the name that a program gave a file into the one that clients are
// told. A name that no ref could hold, and that might read as more than a name
// where it is shown, is an error: the file is of no use to them.
func Announce(name string) (string, error) {
	name = strings.ToValidUTF8(name, "\ufffd")
	if _, err := Ref(name); err != nil {
		return "", err
	}
	return name, nil
}

// Upload turns the file name of an upload into a path relative to the data
// directory. Sub-directories are kept. An absolute path and one with backslashes
// or a drive, which old browsers send, come down to their last segment, and a
// segment that is too long is cut before its extension. A ".." segment is
// refused: nobody who sends one means the file that it would be renamed to. So is a
// name that is longer than any that becomes a path.
func Upload(name string) (string, error) {
	if len(name) > MaxRaw {
		return "", errTooLong
	}
	name = norm.NFC.String(strings.ToValidUTF8(name, "_"))
	name = strings.TrimPrefix(name, root)
	p := strings.ReplaceAll(name, `\`, "/")
	if slices.Contains(strings.Split(p, "/"), "..") {
		return "", errors.New(`contains a ".." segment`)
	}
	if p != name || strings.HasPrefix(p, "/") || hasDrive(p) {
		p = p[strings.LastIndexByte(p, '/')+1:]
	} else {
		p = strings.TrimPrefix(path.Clean("/"+p), "/") // drops "." and doubled slashes
	}
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i] = cut(s)
	}
	p = strings.Join(segments, "/")
	if err := check(p); err != nil {
		return "", err
	}
	return p, nil
}

func hasDrive(p string) bool {
	return len(p) >= 3 && p[1] == ':' && p[2] == '/' &&
		('a' <= p[0] && p[0] <= 'z' || 'A' <= p[0] && p[0] <= 'Z')
}

func check(p string) error {
	switch {
	case p == "":
		return errors.New("is empty")
	case len(p) > MaxBytes:
		return errTooLong
	case strings.ContainsFunc(p, unicode.IsControl):
		return errors.New("contains a control character")
	}
	segments := strings.Split(p, "/")
	if len(segments) > MaxSegments {
		return fmt.Errorf("has more than %d segments", MaxSegments)
	}
	for _, s := range segments {
		switch {
		case s == "":
			return errors.New("is not a relative path in its shortest form")
		case s == ".", s == "..":
			return fmt.Errorf("contains a %q segment", s)
		case len(s) > MaxSegmentBytes:
			return fmt.Errorf("has a segment longer than %d bytes", MaxSegmentBytes)
		}
	}
	return nil
}

// cut shortens a segment to MaxSegmentBytes between characters, keeping a short
// extension.
func cut(s string) string {
	if len(s) <= MaxSegmentBytes {
		return s
	}
	ext := path.Ext(s)
	if len(ext) > 32 || len(ext) == len(s) {
		ext = ""
	}
	return strings.ToValidUTF8(s[:MaxSegmentBytes-len(ext)], "") + ext
}

// Show returns name as it may stand in a sentence: cut, and quoted when it
// holds anything that could be read as more than a name.
func Show(name string) string {
	const most = 128
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "") + "…"
	}
	if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsPrint(r) || r == '`' || r == '"'
	}) {
		return strconv.Quote(name)
	}
	return name
}

// Relative returns the name of a path in a sandbox: what follows the data
// directory. ok is false for paths that are not below it.
func Relative(p string) (name string, ok bool) {
	name, ok = strings.CutPrefix(p, root)
	return name, ok && name != ""
}

// Parents returns the directories that a name lies in, the outermost first.
func Parents(name string) []string {
	var out []string
	for i, c := range name {
		if c == '/' {
			out = append(out, name[:i])
		}
	}
	return out
}

// Absolute returns where a name lies in a sandbox.
func Absolute(name string) string { return root + name }
