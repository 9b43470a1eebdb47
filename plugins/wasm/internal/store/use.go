package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend/changes"
	"golang.org/x/sys/unix"
)

// Get waits for another process that looks at a sandbox under its exclusive lock:
// microseconds, unless that process is frozen.
const (
	busyAttempts = 200
	busyPause    = 5 * time.Millisecond
)

// Create makes a sandbox, all of it or nothing, and returns it in use. With a
// snapshot its data are that snapshot's, which must exist.
func (s *Store) Create(ctx context.Context, config, id string, r Record, snapshot string) (*Sandbox, error) {
	k := key{config, id}
	if !k.ok() {
		return nil, fmt.Errorf("config %q, id %q: must match %s", config, id, nameRule)
	}
	r.Schema, r.Config, r.ID, r.Created = recordSchema, config, id, s.now().UTC()
	c, err := s.shell()
	if err != nil {
		return nil, fmt.Errorf("create sandbox: %w", err)
	}
	b := s.newSandbox(k, r, c.lock, c.data)
	err = s.furnish(ctx, c.dir, b, snapshot)
	if err == nil {
		// The lock is held before the sandbox can be seen.
		err = moveTo(c.dir, b.path)
	}
	if err != nil {
		b.lost = true
		b.shut()
		return nil, errors.Join(fmt.Errorf("create sandbox: %w", err), os.RemoveAll(c.dir))
	}
	return s.enter(b)
}

// moveTo moves a finished directory to its place, which must be free.
func moveTo(stage, path string) error {
	err := os.Rename(stage, path)
	if errors.Is(absent(err), ErrAbsent) { // the first of its config
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			err = os.Rename(stage, path)
		}
	}
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		return ErrExists
	}
	return err
}

// furnish makes a sandbox of an empty directory that nobody else knows.
func (s *Store) furnish(ctx context.Context, dir string, b *Sandbox, snapshot string) error {
	if snapshot == "" {
		b.files.empty = true
	} else if err := s.restore(ctx, b.key.config, snapshot, b); err != nil {
		return err
	}
	err := newRecord(dir, b.Record, b.Record.Created)
	if err == nil {
		b.seen, err = lookRecord(dir)
	}
	return err
}

// newSandbox returns the sandbox that is open as lock and data. Its account is
// empty.
func (s *Store) newSandbox(k key, r Record, lock dirLock, data *os.Root) *Sandbox {
	limits := s.quota
	if n := r.Limits.DiskBytes; n > 0 && (limits.Bytes == 0 || n < limits.Bytes) {
		limits.Bytes = n
	}
	if n := r.Limits.DiskFiles; n > 0 && (limits.Entries == 0 || n < limits.Entries) {
		limits.Entries = n
	}
	b := &Sandbox{
		Record: r, Data: data, Quota: rootfs.NewQuota(limits), Index: &changes.Index{},
		store: s, key: k, path: s.path(k), lock: lock, expires: r.Expires,
		turn: make(chan struct{}, 1), unused: make(chan struct{}),
	}
	b.Index.Writes = b.Quota.Writes()
	b.Tree = rootfs.NewTree(data, b.Quota)
	b.turn <- struct{}{}
	b.ctx, b.cancel = context.WithCancelCause(context.Background())
	return b
}

// Get takes a sandbox into use.
func (s *Store) Get(config, id string) (*Sandbox, error) {
	k := key{config, id}
	if !k.ok() {
		return nil, ErrAbsent
	}
	for range busyAttempts {
		b, err := s.opened(k)
		if b != nil {
			var same bool
			if same, err = b.refresh(); same {
				return b, nil
			}
			b.Release()
			if err != nil && !errors.Is(err, ErrAbsent) {
				return nil, err
			}
			// Another process ended it, and the name may be taken again.
			s.forgetThis(b)
		} else if err == nil {
			if b, err = s.load(k); err == nil {
				return s.enter(b)
			}
		}
		switch {
		case errors.Is(err, errMoved):
		case errors.Is(err, unix.EWOULDBLOCK):
			time.Sleep(busyPause)
		case err != nil:
			return nil, err
		}
	}
	return nil, errBusy
}

// opened takes a sandbox into use that is open already; nil when it is not.
func (s *Store) opened(k key) (*Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	b := s.open[k]
	if b == nil {
		return nil, nil
	}
	if err := b.use(); err != nil {
		return nil, err
	}
	return b, nil
}

// use adds a reference; the caller holds store.mu. It fails, and adds none, when
// another process has the exclusive lock.
func (b *Sandbox) use() error {
	if b.refs > 0 {
		b.refs++
		return nil
	}
	if err := b.lock.set(unix.LOCK_SH); err != nil {
		return err
	}
	b.refs = 1
	b.store.unidle(b)
	return nil
}

// unidle takes b off the idle list, if it is there; the caller holds s.mu.
func (s *Store) unidle(b *Sandbox) {
	if i := slices.Index(s.idle, b); i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
		s.weight -= b.weight
	}
}

// refresh reports whether b still is the sandbox of its name. One that is in the
// hands of this process may have been touched, prolonged or ended by another.
func (b *Sandbox) refresh() (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, err := lookRecord(b.path)
	if err != nil || now == b.seen {
		return err == nil, err
	}
	r, now, err := read(b.path, b.key)
	if err == nil {
		err = b.lock.at(b.path)
	}
	if errors.Is(err, errMoved) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	b.seen, b.expires = now, r.Expires
	return true, nil
}

// errMoved says that a sandbox went away, or another one came, while it was opened.
var errMoved = errors.New("the sandbox was replaced while it was opened")

// load opens a sandbox from its directory.
func (s *Store) load(k key) (*Sandbox, error) {
	path := s.path(k)
	r, seen, err := read(path, k)
	if err != nil {
		return nil, err
	}
	lock, data, err := openDir(path)
	if err != nil {
		return nil, fmt.Errorf("open sandbox: %w", absent(err))
	}
	b := s.newSandbox(k, r, lock, data)
	b.seen = seen
	// What was opened, piece by piece, is one sandbox if the directory that is locked
	// is at its place: then it was all the time.
	err = b.lock.at(path)
	if err == nil {
		if err = b.Quota.Measure(b.ctx, b.Data); err != nil {
			err = fmt.Errorf("measure sandbox: %w", err)
		}
	}
	if err != nil {
		b.lost = true
		b.shut()
		return nil, err
	}
	if saved, err := os.ReadFile(filepath.Join(path, indexFile)); err == nil {
		_ = json.Unmarshal(saved, b.Index) // a damaged index is an empty one
	}
	return b, nil
}

// enter makes a sandbox that was just opened known, in use, or returns the one
// that somebody else opened meanwhile.
func (s *Store) enter(b *Sandbox) (*Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		b.shut()
		return nil, errClosed
	}
	if old := s.open[b.key]; old != nil {
		if old.Record.Created.Equal(b.Record.Created) && old.use() == nil {
			b.lost = true // its index is empty; the other's is not
			b.shut()
			return old, nil
		}
		old.cancel(errDeleted) // it is no longer what has the name
		s.drop(old)
	}
	b.refs = 1
	s.open[b.key] = b
	return b, nil
}

// Release ends one use.
func (b *Sandbox) Release() {
	s := b.store
	s.mu.Lock()
	var evicted []*Sandbox
	b.refs--
	switch {
	case b.refs > 0:
	case b.gone || s.closed:
		evicted = append(evicted, b)
	default:
		_ = b.lock.set(unix.LOCK_UN)
		b.weight = b.files.len() + b.Index.Len()
		s.idle = append(s.idle, b)
		s.weight += b.weight
		for len(s.idle) > maxIdle || s.weight > maxIdleFiles && len(s.idle) > 0 {
			old := s.idle[0]
			s.unidle(old)
			old.gone = true
			delete(s.open, old.key)
			evicted = append(evicted, old)
		}
	}
	s.mu.Unlock()
	for _, old := range evicted {
		old.shut()
	}
}

// forget takes the deleted sandbox of a name out of the store's hands; nil when it
// was not open.
func (s *Store) forget(k key) *Sandbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.open[k]
	if b != nil {
		s.drop(b)
	}
	return b
}

// forgetThis is forget for one that turned out to be gone.
func (s *Store) forgetThis(b *Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[b.key] == b {
		s.drop(b)
		b.cancel(errDeleted)
	}
}

// drop is forget with s.mu held.
func (s *Store) drop(b *Sandbox) {
	delete(s.open, b.key)
	b.gone, b.lost = true, true
	if b.refs == 0 {
		s.unidle(b)
		b.shut()
	}
}
