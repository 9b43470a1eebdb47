package store

import (
	"context"
	"slices"
	"sync"

	"github.com/caisson-run/caisson/sdk/backend/changes"
)

// scanned is the last look at a sandbox's files.
type scanned struct {
	mu         sync.Mutex
	snapshot   *changes.Snapshot
	options    changes.ScanOptions
	generation uint64
	any        bool
	empty      bool // it was made empty, at generation 0
}

// Files returns the tree as it is. The same Snapshot is returned as long as
// nothing was changed through the account of the sandbox, which is everything
// that this process does to it: then not one file is looked at.
func (b *Sandbox) Files(ctx context.Context, o changes.ScanOptions) (*changes.Snapshot, error) {
	f := &b.files
	f.mu.Lock()
	defer f.mu.Unlock()
	// Read before the scan: what changes during the scan makes the next one look.
	generation := b.Quota.Generation()
	if f.empty && generation == 0 {
		return nothing, nil
	}
	if f.snapshot != nil && f.generation == generation && sameScan(f.options, o) {
		return f.snapshot, nil
	}
	defer func() { f.options.Before = nil }() // it would keep all that ever were
	s, err := b.Index.Scan(ctx, b.Data, o)
	if err != nil {
		f.snapshot = nil
		return nil, err
	}
	f.snapshot, f.options, f.generation, f.any = s, o, generation, true
	return s, nil
}

// nothing is an empty tree. It is shared and never written.
var nothing = &changes.Snapshot{}

func sameScan(a, b changes.ScanOptions) bool {
	return a.Prefix == b.Prefix && a.MaxEntries == b.MaxEntries && a.MaxDigestBytes == b.MaxDigestBytes && slices.Equal(a.Exclude, b.Exclude)
}

// len is how many files are remembered.
func (f *scanned) len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.snapshot == nil {
		return 0
	}
	return len(f.snapshot.Files)
}

// ever reports whether there has been a scan, so that the index may be a new one.
func (f *scanned) ever() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.any
}
