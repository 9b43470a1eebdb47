package changes

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/caisson-run/caisson/sdk/backend/files"
)

// Defaults of a CollectSpec (docs/operators.md).
const (
	DefaultMaxFiles     = 100
	DefaultMaxFileBytes = 50 << 20
	DefaultMaxDepth     = 16
)

// Defaults returns spec with its zero limits filled in.
func Defaults(spec files.CollectSpec) files.CollectSpec {
	spec.MaxFiles = cmp.Or(spec.MaxFiles, DefaultMaxFiles)
	spec.MaxFileBytes = cmp.Or(spec.MaxFileBytes, DefaultMaxFileBytes)
	spec.MaxDepth = cmp.Or(spec.MaxDepth, DefaultMaxDepth)
	spec.Root = cmp.Or(spec.Root, files.DataDir)
	return spec
}

// Snapshot is a tree at one moment. A nil *Snapshot is a tree that could not be
// read, which is not the same as an empty one.
type Snapshot struct {
	// Files are the regular files by absolute path in the sandbox.
	Files map[string]File
	// Unnamed counts entries whose names are not UTF-8: they cannot be reported.
	Unnamed int
}

// File is one regular file of a snapshot.
type File struct {
	Stamp
	// Mode holds the permission bits.
	Mode uint32
	// SHA256 is lower-case hex; empty for a file too large to be read.
	SHA256 string
}

// Stamp is what tells, without reading, that a file is as it was.
type Stamp struct {
	Size int64
	// Modified and Changed are in nanoseconds since 1970. Changed is the inode's
	// own time, which a program cannot set; 0 where there is none.
	Modified, Changed int64
	Inode             uint64
}

// Result is what changed.
type Result struct {
	// Changed is in lexical order and within the limits of the spec.
	Changed []files.Entry
	// Deleted is in lexical order.
	Deleted []string
	// Skipped counts changed files that the limits left out.
	Skipped int
	// Failed says that one of the snapshots was nil.
	Failed bool
}

// Diff compares two snapshots of spec.Root. Files below an excluded name or
// deeper than spec.MaxDepth are not looked at; zero limits take Defaults.
func Diff(before, after *Snapshot, spec files.CollectSpec) Result {
	spec = Defaults(spec)
	if before == nil || after == nil {
		return Result{Failed: true}
	}
	r := Result{Skipped: max(0, after.Unnamed-before.Unnamed)}
	for path, f := range after.Files {
		if old, ok := before.Files[path]; (ok && same(old, f)) || !visible(spec, path) {
			continue
		}
		if f.Size > spec.MaxFileBytes || f.SHA256 == "" || depth(spec.Root, path) > spec.MaxDepth {
			r.Skipped++
			continue
		}
		r.Changed = append(r.Changed, files.Entry{
			Path: path, Type: files.EntryFile, Size: f.Size, Mode: f.Mode, SHA256: f.SHA256,
			Modified: time.Unix(0, f.Modified).UTC(),
		})
	}
	for path := range before.Files {
		if _, ok := after.Files[path]; !ok && visible(spec, path) {
			r.Deleted = append(r.Deleted, path)
		}
	}
	slices.Sort(r.Deleted)
	slices.SortFunc(r.Changed, func(a, b files.Entry) int { return strings.Compare(a.Path, b.Path) })
	if n := len(r.Changed) - spec.MaxFiles; n > 0 {
		r.Changed = r.Changed[:spec.MaxFiles]
		r.Skipped += n
	}
	return r
}

func same(a, b File) bool {
	if a.SHA256 == "" || b.SHA256 == "" {
		return a.Stamp == b.Stamp
	}
	return a.SHA256 == b.SHA256
}

// visible reports whether path is below the root and no segment is excluded.
func visible(spec files.CollectSpec, path string) bool {
	if path == spec.Root || !files.Within(spec.Root, path) {
		return false
	}
	for name := range strings.SplitSeq(path[len(spec.Root)+1:], "/") {
		if files.Excluded(spec.Exclude, name) {
			return false
		}
	}
	return true
}

// depth counts the segments of path below root.
func depth(root, path string) int { return strings.Count(path[len(root):], "/") }
