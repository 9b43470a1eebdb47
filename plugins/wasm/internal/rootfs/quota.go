package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero/sys"
)

// Limits bound what guests may store in one directory tree. A zero field means
// the value of DefaultLimits.
type Limits struct {
	// Bytes is the sum of the sizes of all regular files. Holes count: a file
	// made longer without writing is charged for its length.
	Bytes int64
	// Entries is the number of files, directories and links.
	Entries int64
	// Depth is the number of components a path may have below the root.
	Depth int
	// PathBytes is the length of a path below the root, and of the target of
	// a symbolic link.
	PathBytes int
	// OpenFiles is the number of files and directories one FS may have open.
	OpenFiles int
}

// DefaultLimits returns 1 GiB, 50,000 entries, 32 levels, paths of 1024 bytes
// and 256 open files.
func DefaultLimits() Limits {
	return Limits{Bytes: 1 << 30, Entries: 50_000, Depth: 32, PathBytes: 1024, OpenFiles: 256}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.Bytes == 0 {
		l.Bytes = d.Bytes
	}
	if l.Entries == 0 {
		l.Entries = d.Entries
	}
	if l.Depth == 0 {
		l.Depth = d.Depth
	}
	if l.PathBytes == 0 {
		l.PathBytes = d.PathBytes
	}
	if l.OpenFiles == 0 {
		l.OpenFiles = d.OpenFiles
	}
	return l
}

// ErrQuota says that a charge would pass a limit.
var ErrQuota = errors.New("quota exceeded")

// Quota counts what is stored in one directory tree. All file systems over the
// tree, in one run or in several at once, must share one Quota; then growth is
// charged exactly once whichever handle causes it, and shrinking, replacing and
// removing give back. It is safe for concurrent use.
//
// The bytes of a file are given back when its last name and its last handle
// are gone, as a file system would.
type Quota struct {
	limits Limits

	// names serialises everything that adds or removes names or handles, so
	// that "does it exist, charge, create" is one step. Reads and writes of
	// open files do not take it.
	names sync.Mutex

	// changes counts what may have changed the tree; see Generation.
	changes atomic.Uint64
	// refusals counts charges that a limit refused; see Refusals.
	refusals atomic.Uint64

	mu      sync.Mutex // guards the rest
	bytes   int64
	entries int64
	lowered Limits // Bytes and Entries as Lower set them; 0 is not lowered
	open    map[fileID]*inode
	written writes
}

// fileID identifies a file on the host.
type fileID struct{ dev, ino uint64 }

// inode is the one account of a regular file that is open at least once.
type inode struct {
	mu    sync.Mutex    // held while the size changes
	size  int64         // as charged
	refs  int           // handles; guarded by Quota.names
	wrote atomic.Uint64 // the generation of the last write, 0 for none
}

// NewQuota returns an empty account with the given limits.
func NewQuota(l Limits) *Quota {
	return &Quota{limits: l.withDefaults(), open: map[fileID]*inode{}}
}

// Limits returns the limits with the defaults filled in.
func (q *Quota) Limits() Limits { return q.limits }

// Used returns the bytes and entries charged now.
func (q *Quota) Used() (bytes, entries int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes, q.entries
}

// Generation returns a number that is another one after every change to the
// tree that was made through this account: content, names, modes or times. A
// reader that sees the same number before and after has missed nothing. It
// never says the same for two states of the tree; it may change when nothing
// did.
func (q *Quota) Generation() uint64 { return q.changes.Load() }

// Refusals counts how often somebody was told that nothing is left.
func (q *Quota) Refusals() uint64 { return q.refusals.Load() }

// changed notes a change. It is called after the change, so that whoever looked
// at the tree in between looks again.
func (q *Quota) changed() { q.changes.Add(1) }

// Lower narrows the limits on bytes and entries until restore is called; zero
// and what is above the limits changes nothing. One caller at a time.
func (q *Quota) Lower(bytes, entries int64) (restore func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lowered = Limits{Bytes: bytes, Entries: entries}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.lowered = Limits{}
	}
}

// Charge adds to the account on behalf of a host-side writer. It adds both or,
// with an error that wraps ErrQuota, nothing. An account that is already over
// its limit still accepts a charge of zero.
func (q *Quota) Charge(bytes, entries int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	maxBytes, maxEntries := q.limits.Bytes, q.limits.Entries
	if l := q.lowered.Bytes; l > 0 {
		maxBytes = min(maxBytes, l)
	}
	if l := q.lowered.Entries; l > 0 {
		maxEntries = min(maxEntries, l)
	}
	if bytes > 0 && bytes > maxBytes-q.bytes {
		q.refusals.Add(1)
		return fmt.Errorf("%w: %d bytes of %d are used, %d more asked", ErrQuota, q.bytes, maxBytes, bytes)
	}
	if entries > 0 && entries > maxEntries-q.entries {
		q.refusals.Add(1)
		return fmt.Errorf("%w: %d entries of %d are used, %d more asked", ErrQuota, q.entries, maxEntries, entries)
	}
	q.bytes += bytes
	q.entries += entries
	return nil
}

// Release gives back what was charged. The account never falls below zero:
// somebody may remove files that were never counted.
func (q *Quota) Release(bytes, entries int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes = max(0, q.bytes-bytes)
	q.entries = max(0, q.entries-entries)
}

// Measure sets the account to what root holds now. A file with several names
// is counted once. Guests must not run in the directory meanwhile.
func (q *Quota) Measure(ctx context.Context, root *os.Root) error {
	q.names.Lock()
	defer q.names.Unlock()
	var bytes, entries int64
	linked := map[fileID]bool{}
	err := walk(ctx, root, ".", func(_ string, d fs.DirEntry) error {
		entries++
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st := sys.NewStat_t(info)
		if st.Nlink > 1 {
			id := fileID{st.Dev, st.Ino}
			if linked[id] {
				return nil
			}
			linked[id] = true
		}
		bytes += info.Size()
		return nil
	})
	if err != nil {
		return fmt.Errorf("measure directory: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes, q.entries = bytes, entries
	return nil
}

// acquire returns the account of an open file, new or shared. The caller holds
// q.names.
func (q *Quota) acquire(id fileID, size int64) *inode {
	n := q.open[id]
	if n == nil {
		n = &inode{size: size}
		q.open[id] = n
	}
	n.refs++
	return n
}

// drop ends one handle's use of an account; gone tells that the file has no
// name left. The caller holds q.names.
func (q *Quota) drop(id fileID, n *inode, gone bool) {
	n.refs--
	if n.refs > 0 {
		return
	}
	delete(q.open, id)
	if wrote := n.wrote.Load(); wrote > 0 {
		q.written.put(id.ino, wrote)
	}
	if gone {
		q.Release(n.size, 0)
	}
}

// removed gives back what a name held that was just removed; st is its state
// before. The caller holds q.names.
func (q *Quota) removed(st sys.Stat_t) { q.Release(q.held(st), 1) }

// held returns the bytes that end with a name: none while another name or a
// handle keeps them. The caller holds q.names.
func (q *Quota) held(st sys.Stat_t) int64 {
	if st.Mode.IsRegular() && st.Nlink <= 1 && q.open[fileID{st.Dev, st.Ino}] == nil {
		return st.Size
	}
	return 0
}
