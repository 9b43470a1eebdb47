package envd

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// A scan is what the script's list and digests print: records that end with NUL. It
// comes from inside a sandbox, so that nothing in it is taken for granted.

// maxScan bounds one scan.
const maxScan = 16 << 20

// part is one stream's half of a scan: what lies between its marks B and b.
type part struct {
	data  []byte
	begun bool
	ended bool
	over  bool // there was more than maxScan: nothing of it is kept
}

func (p *part) write(b []byte) error {
	switch {
	case !p.begun || p.ended || p.over: // between marks there is nothing to read
	case len(p.data)+len(b) > maxScan:
		p.data, p.over = nil, true
	default:
		p.data = append(p.data, b...)
	}
	return nil
}

func (p *part) mark(verb, rest string) error {
	switch {
	case verb == "B":
		*p = part{begun: true}
	case verb == "b" && (rest == "0" || rest == "1"): // 1: something could not be read, or went meanwhile
		p.ended = true
	}
	return nil
}

// section is a whole scan.
type section struct{ listing, digests part }

func (s *section) complete() bool {
	return s.listing.ended && s.digests.ended && !s.listing.over && !s.digests.over
}

func (s *section) parse(root string) (*tree, error) {
	return parseScan(root, s.listing.data, s.digests.data)
}

// found is one path of a listing.
type found struct {
	entry   backend.Entry
	changed int64 // of the inode, ns
	inode   uint64
	dir     bool
}

// errScan is a record that no find prints.
var errScan = errors.New("the sandbox's file listing cannot be understood")

// parseFound reads a record of a listing: type, size, times, mode, inode, path.
func parseFound(record []byte) (found, error) {
	f := bytes.SplitN(record, []byte("\t"), 7)
	if len(f) != 7 || len(f[0]) == 0 {
		return found{}, errScan
	}
	kind, err := entryType(string(f[0]))
	if err != nil {
		return found{}, err
	}
	size, err1 := strconv.ParseInt(string(f[1]), 10, 64)
	modified, err2 := parseTime(string(f[2]))
	changed, err3 := parseTime(string(f[3]))
	mode, err4 := strconv.ParseUint(string(f[4]), 8, 32)
	inode, err5 := strconv.ParseUint(string(f[5]), 10, 64)
	if errors.Join(err1, err2, err3, err4, err5) != nil || size < 0 {
		return found{}, errScan
	}
	if kind != backend.EntryFile {
		size = 0
	}
	return found{
		entry: backend.Entry{
			Path: string(f[6]), Type: kind, Size: size, Mode: uint32(mode) & 0o777,
			Modified: time.Unix(0, modified).UTC(),
		},
		changed: changed, inode: inode, dir: kind == backend.EntryDir,
	}, nil
}

// entryType understands find's letter and the mode in hexadecimal of stat.
func entryType(s string) (backend.EntryType, error) {
	if len(s) == 1 {
		switch s {
		case "f":
			return backend.EntryFile, nil
		case "d":
			return backend.EntryDir, nil
		case "l", "p", "s", "b", "c", "D", "U", "?", "N", "L":
			return backend.EntryOther, nil
		}
		return "", errScan
	}
	mode, err := strconv.ParseUint(s, 16, 32)
	if err != nil {
		return "", errScan
	}
	switch mode >> 12 {
	case 8:
		return backend.EntryFile, nil
	case 4:
		return backend.EntryDir, nil
	}
	return backend.EntryOther, nil
}

// parseTime reads seconds since 1970 with a fraction, as nanoseconds.
func parseTime(s string) (int64, error) {
	whole, fraction, _ := strings.Cut(s, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || sec > math.MaxInt64/int64(time.Second)-1 || sec < math.MinInt64/int64(time.Second)+1 {
		return 0, errScan
	}
	fraction = (fraction + "000000000")[:9]
	ns, err := strconv.ParseUint(fraction, 10, 64)
	if err != nil {
		return 0, errScan
	}
	return sec*int64(time.Second) + int64(ns), nil
}

// parseDigest reads a record of sha256sum.
func parseDigest(record []byte) (name, sum string, err error) {
	if len(record) < 67 || record[64] != ' ' || record[65] != ' ' && record[65] != '*' ||
		len(bytes.Trim(record[:64], "0123456789abcdef")) > 0 {
		return "", "", errScan
	}
	return string(record[66:]), string(record[:64]), nil
}

// tree is a parsed scan, without its root.
type tree struct {
	found []found
	// unnamed counts paths that are no UTF-8.
	unnamed int
	// root is what the root itself is.
	root found
}

// parseScan reads a listing and digests of what is below root.
func parseScan(root string, listing, digests []byte) (*tree, error) {
	sums := make(map[string]string)
	for record := range bytes.SplitSeq(bytes.TrimSuffix(digests, []byte{0}), []byte{0}) {
		if len(record) == 0 {
			continue
		}
		name, sum, err := parseDigest(record)
		if err != nil {
			return nil, err
		}
		sums[name] = sum
	}
	t := new(tree)
	for record := range bytes.SplitSeq(bytes.TrimSuffix(listing, []byte{0}), []byte{0}) {
		if len(record) == 0 {
			continue
		}
		f, err := parseFound(record)
		if err != nil {
			return nil, err
		}
		switch {
		case f.entry.Path == root:
			t.root = f
			continue
		case backend.Within(stateDir, f.entry.Path):
			continue // ours
		case !utf8.ValidString(f.entry.Path):
			t.unnamed++
			continue
		case backend.CheckPath(f.entry.Path) != nil || !backend.Within(root, f.entry.Path):
			return nil, fmt.Errorf("%w: a path is not below the root", errScan)
		}
		f.entry.SHA256 = sums[f.entry.Path]
		t.found = append(t.found, f)
	}
	return t, nil
}

// snapshot is what changes are found with.
func (t *tree) snapshot() *changes.Snapshot {
	s := &changes.Snapshot{Files: make(map[string]changes.File, len(t.found)), Unnamed: t.unnamed}
	for _, f := range t.found {
		if f.entry.Type == backend.EntryFile {
			s.Files[f.entry.Path] = changes.File{
				Stamp: changes.Stamp{Size: f.entry.Size, Modified: f.entry.Modified.UnixNano(), Changed: f.changed, Inode: f.inode},
				Mode:  f.entry.Mode, SHA256: f.entry.SHA256,
			}
		}
	}
	return s
}

// less orders paths depth first, by name within a directory.
func less(a, b string) int {
	for {
		x, restA, moreA := strings.Cut(a, "/")
		y, restB, moreB := strings.Cut(b, "/")
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		switch {
		case !moreA && !moreB:
			return 0
		case !moreA:
			return -1
		case !moreB:
			return 1
		}
		a, b = restA, restB
	}
}

// excluded reports whether a name between root and p is left out.
func excluded(exclude []string, root, p string) bool {
	for ; p != root && len(p) > len(root); p = path.Dir(p) {
		if backend.Excluded(exclude, path.Base(p)) {
			return true
		}
	}
	return false
}
