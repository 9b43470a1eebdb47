// Package files holds what sdk/backend says about files in a sandbox: entries,
// paths, and what to look for after a run. It is a package of its own, without any
// dependency, so that small programs inside sandboxes can use it; everybody else
// finds the same names in package backend.
package files

import "time"

// Well-known paths inside every sandbox.
const (
	// DataDir is the working directory: persistent and collected.
	DataDir = "/mnt/data"
	// TmpDir is scratch space, empty at the start of every run.
	TmpDir = "/tmp"
)

// EntryType is what a path is. Anything that is neither a regular file nor a
// directory, links included, is EntryOther and never an artifact.
type EntryType string

const (
	EntryFile  EntryType = "file"
	EntryDir   EntryType = "dir"
	EntryOther EntryType = "other"
)

// Entry describes one path.
type Entry struct {
	// Path is absolute inside the sandbox.
	Path string    `json:"path"`
	Type EntryType `json:"type"`
	// Size is in bytes, 0 for anything but files.
	Size int64 `json:"size"`
	// Modified is the modification time with the provider's precision.
	Modified time.Time `json:"modified,omitzero"`
	// Mode holds the permission bits.
	Mode uint32 `json:"mode,omitempty"`
	// SHA256 is lower-case hex of a file's content; empty when not computed.
	SHA256 string `json:"sha256,omitempty"`
}

// CollectSpec bounds the search for changed files.
type CollectSpec struct {
	// Root is where to look; empty means DataDir.
	Root string `json:"root,omitempty"`
	// MaxFiles, MaxFileBytes and MaxDepth bound the answer; what exceeds them is
	// counted in RunResult.Skipped. Zero means the backend's default.
	MaxFiles     int   `json:"max_files,omitempty"`
	MaxFileBytes int64 `json:"max_file_bytes,omitempty"`
	MaxDepth     int   `json:"max_depth,omitempty"`
	// Exclude lists base names that are never reported, nor descended into:
	// exact ("__pycache__") or by suffix ("*.pyc").
	Exclude []string `json:"exclude,omitempty"`
	// Skip turns collection off.
	Skip bool `json:"skip,omitempty"`
}
