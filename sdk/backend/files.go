package backend

import "github.com/caisson-run/caisson/sdk/backend/files"

// EntryType is what a path is. Anything that is neither a regular file nor a
// directory, links included, is EntryOther and never an artifact.
type EntryType = files.EntryType

const (
	EntryFile  = files.EntryFile
	EntryDir   = files.EntryDir
	EntryOther = files.EntryOther
)

// Entry describes one path.
type Entry = files.Entry

// WalkRequest asks for a tree.
type WalkRequest struct {
	Ref
	// Root is absolute; empty means DataDir.
	Root string `json:"root,omitempty"`
	// MaxEntries and MaxDepth bound the answer; zero means the backend's default.
	MaxEntries int `json:"max_entries,omitempty"`
	MaxDepth   int `json:"max_depth,omitempty"`
	// Digests asks for SHA256 of regular files up to MaxDigestBytes each (zero:
	// the backend's default).
	Digests        bool  `json:"digests,omitempty"`
	MaxDigestBytes int64 `json:"max_digest_bytes,omitempty"`
	// Exclude is as in CollectSpec.
	Exclude []string `json:"exclude,omitempty"`
}

// WalkResult is a tree, depth first and by name within a directory, Root itself
// left out.
type WalkResult struct {
	Entries []Entry `json:"entries"`
	// Truncated says that a limit cut the walk.
	Truncated bool `json:"truncated,omitempty"`
}

// WriteOptions of WriteFile. The zero value is right for uploads.
type WriteOptions struct {
	// Mode holds permission bits; zero means 0644.
	Mode uint32
	// MaxBytes refuses longer content with KindInvalidRequest, leaving what was
	// there before; zero means the backend's default.
	MaxBytes int64
	// Exclusive refuses an existing path with KindConflict.
	Exclusive bool
}
