package changes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/backend/files"
)

// racy is how close to its last change a file may be read and still change
// again without its times moving: kernels stamp files with a clock that ticks
// every 1 to 10 ms, some file systems with a coarser one.
const racy = 2 * time.Second

// ErrTooMany says that a tree has more entries than a scan may look at.
var ErrTooMany = errors.New("too many files")

// Index remembers digests of files in a local directory, so that a scan reads
// only what changed. It is a cache: losing it costs time only. The zero value is
// empty and ready. It is safe for concurrent use.
type Index struct {
	// Writes, when there is one, knows better than stamps what was written. It is set
	// before the index is used.
	Writes Writes

	mu    sync.Mutex
	files map[string]indexed
}

// Writes is kept by who sees every write to the files of an index. Moments are
// numbers that grow; 0 is none.
type Writes interface {
	// Now is a moment before any write that has not happened yet.
	Now() uint64
	// Since reports whether the file of that inode may have been written after a
	// moment.
	Since(moment, inode uint64) bool
}

// indexed is a digest with the stamp it belongs to. Read is when the file was
// read, in nanoseconds, and Moment the same for Writes.
type indexed struct {
	Stamp
	Read   int64
	Moment uint64 `json:"-"`
	SHA256 string
}

// believable reports whether the file could not have changed later without another
// stamp.
func (x *Index) believable(known indexed) bool {
	return known.Read-max(known.Modified, known.Changed) > int64(racy) ||
		x.Writes != nil && known.Moment > 0 && !x.Writes.Since(known.Moment, known.Inode)
}

// now is a moment of Writes, 0 without.
func (x *Index) now() uint64 {
	if x.Writes == nil {
		return 0
	}
	return x.Writes.Now()
}

// Note tells the digest of a file that was just put at rel: what was described by
// info when it was there, and was computed before moment.
func (x *Index) Note(rel string, info fs.FileInfo, sum string, moment uint64) {
	if moment == 0 {
		return
	}
	x.put(rel, indexed{Stamp: StampOf(info), Moment: moment, SHA256: sum})
}

func (x *Index) put(rel string, known indexed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.files == nil {
		x.files = make(map[string]indexed)
	}
	x.files[rel] = known
}

// ScanOptions bound a scan.
type ScanOptions struct {
	// Prefix is where the directory is in the sandbox; empty means files.DataDir.
	Prefix string
	// Exclude is as in files.CollectSpec; what it names is not looked at.
	Exclude []string
	// MaxEntries bounds what is looked at; beyond it the scan fails with
	// ErrTooMany. Zero means 100,000.
	MaxEntries int
	// MaxDepth leaves directories alone that are deeper; those of root have depth 1. Every
	// look at a file costs time in proportion to its depth. Zero looks at all.
	MaxDepth int
	// MaxDigestBytes leaves larger files without a digest. Zero means 1 GiB.
	MaxDigestBytes int64
	// Before, when MaxNew is not 0, is the tree as it was, and MaxNew how many files
	// that are not in it get a digest: the first in the order of directories. The
	// others have none, which is enough to count them.
	Before *Snapshot
	MaxNew int
}

// Scan reads the tree below root. It opens nothing but regular files and
// follows no links.
func (x *Index) Scan(ctx context.Context, root *os.Root, o ScanOptions) (*Snapshot, error) {
	if o.Prefix == "" {
		o.Prefix = files.DataDir
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = 100_000
	}
	if o.MaxDigestBytes == 0 {
		o.MaxDigestBytes = 1 << 30
	}
	s := &Snapshot{Files: make(map[string]File)}
	kept := make(map[string]indexed)
	entries, fresh := 0, 0
	err := fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if p != "." && vanished(root, p, d, err) {
				return nil
			}
			return err
		}
		if p == "." {
			return nil
		}
		if entries++; entries > o.MaxEntries {
			return fmt.Errorf("%w: more than %d", ErrTooMany, o.MaxEntries)
		}
		unnamed := !utf8.ValidString(d.Name())
		if unnamed {
			s.Unnamed++
		}
		if unnamed || files.Excluded(o.Exclude, d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() && o.MaxDepth > 0 && strings.Count(p, "/") >= o.MaxDepth {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		name := path.Join(o.Prefix, p)
		most := o.MaxDigestBytes
		if o.MaxNew > 0 && o.Before != nil {
			old, ok := o.Before.Files[name]
			switch {
			case !ok:
				if fresh++; fresh > o.MaxNew {
					most = 0
				}
			case old.SHA256 == "":
				// It was left out before, and still is if nothing touched it.
				if info, err := d.Info(); err == nil && StampOf(info) == old.Stamp {
					most = 0
				}
			}
		}
		f, ix, err := x.look(ctx, root, p, most)
		if errors.Is(err, ErrNotRegular) || err != nil && vanished(root, p, d, err) {
			return nil
		}
		if err != nil {
			return err
		}
		s.Files[name] = f
		if ix.SHA256 != "" {
			kept[p] = ix
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("scan files: %w", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.files = kept
	return s, nil
}

// Digest returns the entry of one regular file below root, by its slash-
// separated relative path, with its digest when it has at most maxBytes.
func (x *Index) Digest(ctx context.Context, root *os.Root, rel string, maxBytes int64) (File, error) {
	f, ix, err := x.look(ctx, root, rel, maxBytes)
	if err == nil && ix.SHA256 != "" {
		x.put(rel, ix)
	}
	return f, err
}

// vanished reports whether an error about p only says that it is not what d was any
// more: somebody else removed or replaced it, or a directory above it.
func vanished(root *os.Root, p string, d fs.DirEntry, err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var number syscall.Errno
	if !errors.As(err, &number) { // os.Root's refusal of what leads out has none
		return true
	}
	if number == syscall.ENOENT || number == syscall.ENOTDIR || number == syscall.ELOOP {
		return true
	}
	info, again := root.Lstat(p)
	return again != nil || d == nil || info.Mode().Type() != d.Type()
}

func (x *Index) look(ctx context.Context, root *os.Root, rel string, maxBytes int64) (File, indexed, error) {
	info, err := root.Lstat(rel)
	if err != nil {
		return File{}, indexed{}, err
	}
	if !info.Mode().IsRegular() {
		return File{}, indexed{}, ErrNotRegular
	}
	f := File{Stamp: StampOf(info), Mode: uint32(info.Mode().Perm())}
	x.mu.Lock()
	known, ok := x.files[rel]
	x.mu.Unlock()
	if ok && known.Stamp == f.Stamp && x.believable(known) {
		f.SHA256 = known.SHA256
		return f, known, nil
	}
	if f.Size > maxBytes || maxBytes == 0 {
		return f, indexed{}, nil
	}
	started, moment := time.Now().UnixNano(), x.now()
	sum, info, err := digest(ctx, root, rel, maxBytes)
	if err != nil {
		return File{}, indexed{}, err
	}
	f.Stamp, f.Mode, f.SHA256 = StampOf(info), uint32(info.Mode().Perm()), sum
	return f, indexed{Stamp: f.Stamp, Read: started, Moment: moment, SHA256: sum}, nil
}

// digest reads a regular file, and says what it was then. The digest of a file that has
// more than maxBytes is empty.
func digest(ctx context.Context, root *os.Root, rel string, maxBytes int64) (string, fs.FileInfo, error) {
	f, info, err := OpenRegular(root, rel)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := copyContext(ctx, h, io.LimitReader(f, maxBytes+1))
	if err != nil || n > maxBytes {
		return "", info, err
	}
	return hex.EncodeToString(h.Sum(nil)), info, nil
}

func copyContext(ctx context.Context, h hash.Hash, r io.Reader) (total int64, err error) {
	buf := make([]byte, 128<<10)
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := r.Read(buf)
		h.Write(buf[:n])
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// StampOf returns the stamp of a file.
func StampOf(info fs.FileInfo) Stamp {
	s := Stamp{Size: info.Size(), Modified: info.ModTime().UnixNano()}
	s.Changed, s.Inode = inodeOf(info)
	return s
}

// Len returns how many digests are remembered, at about 200 bytes each.
func (x *Index) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.files)
}

// MarshalJSON and UnmarshalJSON let an index outlive its process.
func (x *Index) MarshalJSON() ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return json.Marshal(x.files)
}

// UnmarshalJSON replaces the index. Whatever is not an index makes it empty and
// is an error; the index stays usable.
func (x *Index) UnmarshalJSON(b []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.files = nil
	return json.Unmarshal(b, &x.files)
}
