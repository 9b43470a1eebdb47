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
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/caisson-run/caisson/sdk/backend"
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
	mu    sync.Mutex
	files map[string]indexed
}

// indexed is a digest with the stamp it belongs to. Read is when the file was
// read, in nanoseconds.
type indexed struct {
	Stamp
	Read   int64
	SHA256 string
}

// believable reports whether the stamp could not have stayed the same through a
// later change.
func (x indexed) believable() bool {
	return x.Read-max(x.Modified, x.Changed) > int64(racy)
}

// ScanOptions bound a scan.
type ScanOptions struct {
	// Prefix is where the directory is in the sandbox; empty means backend.DataDir.
	Prefix string
	// Exclude is as in backend.CollectSpec; what it names is not looked at.
	Exclude []string
	// MaxEntries bounds what is looked at; beyond it the scan fails with
	// ErrTooMany. Zero means 100,000.
	MaxEntries int
	// MaxDigestBytes leaves larger files without a digest. Zero means 1 GiB.
	MaxDigestBytes int64
}

// Scan reads the tree below root. It opens nothing but regular files and
// follows no links.
func (x *Index) Scan(ctx context.Context, root *os.Root, o ScanOptions) (*Snapshot, error) {
	if o.Prefix == "" {
		o.Prefix = backend.DataDir
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = 100_000
	}
	if o.MaxDigestBytes == 0 {
		o.MaxDigestBytes = 1 << 30
	}
	s := &Snapshot{Files: make(map[string]File)}
	kept := make(map[string]indexed)
	entries := 0
	err := fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) { // went away meanwhile
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
		if unnamed || backend.Excluded(o.Exclude, d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		f, ix, err := x.look(ctx, root, p, o.MaxDigestBytes)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotRegular) {
			return nil
		}
		if err != nil {
			return err
		}
		s.Files[path.Join(o.Prefix, p)] = f
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
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.files == nil {
			x.files = make(map[string]indexed)
		}
		x.files[rel] = ix
	}
	return f, err
}

// ErrNotRegular says that a path is no regular file.
var ErrNotRegular = errors.New("not a regular file")

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
	if ok && known.Stamp == f.Stamp && known.believable() {
		f.SHA256 = known.SHA256
		return f, known, nil
	}
	if f.Size > maxBytes {
		return f, indexed{}, nil
	}
	started := time.Now().UnixNano()
	sum, info, err := digest(ctx, root, rel, info, maxBytes)
	if err != nil {
		return File{}, indexed{}, err
	}
	f.Stamp, f.SHA256 = StampOf(info), sum
	return f, indexed{Stamp: f.Stamp, Read: started, SHA256: sum}, nil
}

// digest reads the very file that was looked at: a name may be pointed at
// something else at any moment.
//
// The digest of a file that grew beyond maxBytes is empty.
func digest(ctx context.Context, root *os.Root, rel string, want fs.FileInfo, maxBytes int64) (string, fs.FileInfo, error) {
	f, err := root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe must not block
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() || !os.SameFile(want, info) {
		return "", nil, ErrNotRegular
	}
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
