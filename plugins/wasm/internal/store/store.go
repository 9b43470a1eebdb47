package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"golang.org/x/sys/unix"
)

var (
	// ErrExists: there is a sandbox of that id.
	ErrExists = errors.New("sandbox exists")
	// ErrAbsent: there is none.
	ErrAbsent = errors.New("no such sandbox")
)

// Store keeps sandboxes below one directory. It is safe for concurrent use, and
// several processes may use one directory while one of them replaces the other.
type Store struct {
	dir     string
	work    string
	workDir *os.File // the same, open
	alive   dirLock  // on work, as long as this process lives
	quota   rootfs.Limits
	now     func() time.Time

	mu      sync.Mutex
	open    map[key]*Sandbox
	idle    []*Sandbox // unused, longest first; kept for their index and account
	weight  int        // files that idle remembers
	scratch []*Scratch // clean and unused
	ready   []shell    // sandboxes that are nobody's yet
	closed  bool

	wanted chan struct{} // more of ready; closed by Close
	tasks  sync.WaitGroup
}

type key struct{ config, id string }

// maxIdle and maxIdleFiles bound how many unused sandboxes keep descriptors and
// an index, and how many stamps and digests those remember together (about 200 bytes
// each).
const (
	maxIdle      = 128
	maxIdleFiles = 100_000
)

// Options of Open.
type Options struct {
	// Quota bounds each sandbox. The limits of a sandbox may be narrower.
	Quota rootfs.Limits
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Open prepares dir, which is made if need be. It reads nothing of the sandboxes:
// it takes as long for ten thousand as for none.
func Open(dir string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{dir: dir, quota: o.Quota, now: o.Now, open: make(map[key]*Sandbox), wanted: make(chan struct{}, 1)}
	for _, sub := range []string{"sessions", "snapshots", "work", "trash"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open sandbox store: %w", err)
		}
	}
	s.work = filepath.Join(dir, "work", randomName())
	if err := os.MkdirAll(filepath.Join(s.work, readyDir), 0o700); err != nil {
		return nil, fmt.Errorf("open sandbox store: %w", err)
	}
	var err error
	if s.alive, err = lockDir(s.work, unix.LOCK_EX); err == nil {
		if s.workDir, err = os.Open(s.work); err != nil {
			s.alive.close()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open sandbox store: %w", err), os.RemoveAll(s.work))
	}
	s.tasks.Go(s.makeReady)
	s.wanted <- struct{}{}
	return s, nil
}

// Clean deletes trash and the work directories that no process holds. It returns
// early when ctx ends; what is left is for the next time.
func (s *Store) Clean(ctx context.Context) error {
	var errs []error
	for _, sub := range []string{"trash", "work"} {
		base := filepath.Join(s.dir, sub)
		err := names(base, func(name string) error {
			path := filepath.Join(base, name)
			if path != s.work {
				errs = append(errs, removeUnused(ctx, base, name))
			}
			return ctx.Err()
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeUnused deletes base/name, as far as ctx lets it, unless somebody uses it.
func removeUnused(ctx context.Context, base, name string) error {
	path := filepath.Join(base, name)
	lock, err := lockDir(path, unix.LOCK_EX)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil
	case err == nil:
		defer lock.close()
		// Most hold nothing any more but what this package wrote.
		for _, file := range []string{recordFile, indexFile} {
			_ = unix.Unlink(path + "/" + file)
		}
		if unix.Rmdir(path+"/data") == nil && unix.Rmdir(path) == nil {
			return nil
		}
	}
	// What is no directory cannot be in use.
	return removeTree(ctx, base, name)
}

// removeTree deletes base/name, whatever it holds, as far as ctx lets it.
func removeTree(ctx context.Context, base, name string) error {
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	return rootfs.NewTree(root, rootfs.NewQuota(rootfs.Limits{})).RemoveAll(ctx, name)
}

// names calls fn for every entry of a directory, in no order. An absent directory
// has none. It holds a bounded number of names.
func names(dir string, fn func(name string) error) error {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		list, err := f.Readdirnames(256)
		for _, name := range list {
			if err := fn(name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Close ends the background work, saves indexes and gives up descriptors. Sandboxes stay. Sandboxes and
// scratch directories in use must have been released. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	idle, scratch, ready := s.idle, s.scratch, s.ready
	s.idle, s.scratch, s.ready, s.open = nil, nil, nil, map[key]*Sandbox{}
	close(s.wanted)
	s.mu.Unlock()
	s.tasks.Wait()
	for _, b := range idle {
		b.shut()
	}
	for _, c := range scratch {
		c.close()
	}
	for _, c := range ready {
		c.close()
	}
	err := os.RemoveAll(s.work)
	s.alive.close()
	return errors.Join(err, s.workDir.Close())
}

// nameRule is what may become a directory of ours.
var nameRule = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (s *Store) path(k key) string { return filepath.Join(s.dir, "sessions", k.config, k.id) }

func (k key) ok() bool { return nameRule.MatchString(k.config) && nameRule.MatchString(k.id) }

// Look describes a sandbox without using it: its record and its last activity.
func (s *Store) Look(config, id string) (Record, time.Time, error) {
	k := key{config, id}
	if !k.ok() {
		return Record{}, time.Time{}, ErrAbsent
	}
	r, seen, err := read(s.path(k), k)
	if err != nil {
		return Record{}, time.Time{}, err
	}
	return r, time.Unix(0, seen.active), nil
}

// IDs calls fn with the id of every sandbox of a config, in no order. What is made
// or ended meanwhile may be missing or not.
func (s *Store) IDs(config string, fn func(id string) error) error {
	if !nameRule.MatchString(config) {
		return nil
	}
	return names(filepath.Join(s.dir, "sessions", config), func(name string) error {
		if !nameRule.MatchString(name) {
			return nil
		}
		return fn(name)
	})
}

// Count returns how many sandboxes a config has.
func (s *Store) Count(config string) (int, error) {
	if !nameRule.MatchString(config) {
		return 0, nil
	}
	return count(filepath.Join(s.dir, "sessions", config))
}

// count returns the number of directories in dir, without reading it where the
// file system keeps count: each subdirectory links to its parent.
func count(dir string) (int, error) {
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, err
	case st.Nlink >= 2:
		return int(st.Nlink) - 2, nil
	}
	n := 0
	return n, names(dir, func(string) error { n++; return nil })
}

// Configs lists the configs that have had sandboxes.
func (s *Store) Configs() ([]string, error) {
	var out []string
	err := names(filepath.Join(s.dir, "sessions"), func(name string) error {
		if nameRule.MatchString(name) {
			out = append(out, name)
		}
		return nil
	})
	return out, err
}

// Delete ends a sandbox: it is gone at once for everybody, what uses it in this
// process is cancelled and waited for, and its files are removed. An absent one is
// ErrAbsent. When ctx ends first, the files are left to Clean.
func (s *Store) Delete(ctx context.Context, config, id string) error {
	k := key{config, id}
	if !k.ok() {
		return ErrAbsent
	}
	trash, err := s.discard(s.path(k))
	if err != nil {
		return err
	}
	if b := s.forget(k); b != nil {
		b.cancel(errDeleted)
		select {
		case <-b.unused:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.bury(ctx, trash)
}

var errDeleted = errors.New("the sandbox was deleted")

// discard moves a sandbox or a snapshot to the trash, under the name returned.
func (s *Store) discard(path string) (string, error) {
	name := randomName()
	if err := os.Rename(path, filepath.Join(s.dir, "trash", name)); err != nil {
		if errors.Is(absent(err), ErrAbsent) {
			return "", ErrAbsent
		}
		return "", fmt.Errorf("delete sandbox: %w", err)
	}
	return name, nil
}

// bury deletes what discard moved. What another process, or a copy, still uses is
// left to Clean.
func (s *Store) bury(ctx context.Context, name string) error {
	if err := removeUnused(ctx, filepath.Join(s.dir, "trash"), name); err != nil {
		return fmt.Errorf("delete sandbox: %w", err)
	}
	return nil
}

func randomName() string {
	var b [12]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
