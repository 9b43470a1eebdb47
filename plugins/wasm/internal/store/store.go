package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend"
	"golang.org/x/sys/unix"
)

var (
	// ErrExists: there is a sandbox of that id.
	ErrExists = errors.New("sandbox exists")
	// ErrAbsent: there is none.
	ErrAbsent = errors.New("no such sandbox")
)

// recordSchema is the version of Record on disk. Others are refused.
const recordSchema = 1

// Record is what is known of a sandbox from its making. It never changes but
// for Expires.
type Record struct {
	Schema   int               `json:"schema"`
	Config   string            `json:"config"`
	ID       string            `json:"id"`
	Created  time.Time         `json:"created"`
	Expires  time.Time         `json:"expires,omitzero"`
	Metadata backend.Metadata  `json:"metadata"`
	Env      map[string]string `json:"env,omitempty"`
	Limits   backend.Limits    `json:"limits,omitzero"`
}

// Store keeps sandboxes below one directory. It is safe for concurrent use, and
// several processes may use one directory while one of them replaces the other.
type Store struct {
	dir   string
	work  string
	lock  *os.File
	quota rootfs.Limits
	now   func() time.Time

	mu     sync.Mutex
	open   map[key]*Sandbox
	idle   []*Sandbox // unused, longest first; kept for their index and account
	closed bool
}

type key struct{ config, id string }

// maxIdle bounds how many unused sandboxes keep a descriptor and an index.
const maxIdle = 128

// Options of Open.
type Options struct {
	// Quota bounds each sandbox.
	Quota rootfs.Limits
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Open prepares dir, which is made if need be, and deletes what dead processes
// left half-done.
func Open(dir string, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{dir: dir, quota: o.Quota, now: o.Now, open: make(map[key]*Sandbox)}
	for _, sub := range []string{"sessions", "work", "trash"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("open sandbox store: %w", err)
		}
	}
	s.work = filepath.Join(dir, "work", randomName())
	if err := os.Mkdir(s.work, 0o700); err != nil {
		return nil, fmt.Errorf("open sandbox store: %w", err)
	}
	lock, err := lockDir(s.work)
	if err != nil {
		return nil, fmt.Errorf("open sandbox store: %w", err)
	}
	s.lock = lock
	if err := s.clean(); err != nil {
		return nil, errors.Join(fmt.Errorf("open sandbox store: %w", err), s.Close())
	}
	return s, nil
}

// lockDir marks a work directory as in use by this process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// clean deletes trash and the work directories that no process holds.
func (s *Store) clean() error {
	var errs []error
	for _, sub := range []string{"trash", "work"} {
		base := filepath.Join(s.dir, sub)
		entries, err := os.ReadDir(base)
		if err != nil {
			return err
		}
		for _, e := range entries {
			path := filepath.Join(base, e.Name())
			if sub == "work" {
				if path == s.work {
					continue
				}
				f, err := lockDir(path)
				if err != nil {
					continue // in use, or gone
				}
				defer f.Close()
			}
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

// Close saves indexes and gives up descriptors. Sandboxes stay. Sandboxes in use
// must have been released.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	idle := s.idle
	s.idle, s.open = nil, map[key]*Sandbox{}
	s.mu.Unlock()
	for _, b := range idle {
		b.shut()
	}
	err := os.RemoveAll(s.work)
	return errors.Join(err, s.lock.Close())
}

// name is what may become a directory of ours.
var name = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (s *Store) path(config, id string) string {
	return filepath.Join(s.dir, "sessions", config, id)
}

// Create makes a sandbox, all of it or nothing, and returns it in use.
func (s *Store) Create(config, id string, r Record) (*Sandbox, error) {
	if !name.MatchString(config) || !name.MatchString(id) {
		return nil, fmt.Errorf("config %q, id %q: must match %s", config, id, name)
	}
	r.Schema, r.Config, r.ID, r.Created = recordSchema, config, id, s.now().UTC()
	stage := filepath.Join(s.work, randomName())
	err := os.MkdirAll(filepath.Join(stage, "data"), 0o700)
	if err == nil {
		err = writeRecord(stage, r)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(stage, "active"), nil, 0o600)
	}
	if err == nil {
		err = touch(stage, s.now())
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(s.path(config, id)), 0o700)
	}
	if err == nil {
		err = os.Rename(stage, s.path(config, id))
	}
	if err != nil {
		if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
			err = ErrExists
		}
		return nil, errors.Join(fmt.Errorf("create sandbox: %w", err), os.RemoveAll(stage))
	}
	return s.Get(config, id)
}

// Look describes a sandbox without using it.
func (s *Store) Look(config, id string) (Record, time.Time, error) {
	if !name.MatchString(config) || !name.MatchString(id) {
		return Record{}, time.Time{}, ErrAbsent
	}
	dir := s.path(config, id)
	r, err := readRecord(dir)
	if err != nil {
		return Record{}, time.Time{}, err
	}
	if r.Config != config || r.ID != id {
		return Record{}, time.Time{}, fmt.Errorf("record of sandbox %s belongs to another; it was moved or damaged", id)
	}
	st, err := os.Stat(filepath.Join(dir, "active"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, time.Time{}, nil
	}
	if err != nil {
		return Record{}, time.Time{}, err
	}
	return r, st.ModTime(), nil
}

// IDs lists the sandboxes of a config.
func (s *Store) IDs(config string) ([]string, error) {
	if !name.MatchString(config) {
		return nil, nil
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "sessions", config))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && name.MatchString(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

// Configs lists the configs that have had sandboxes.
func (s *Store) Configs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "sessions"))
	var out []string
	for _, e := range entries {
		if e.IsDir() && name.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// SetExpires changes when a sandbox ends by itself; zero is never.
func (s *Store) SetExpires(config, id string, at time.Time) error {
	r, _, err := s.Look(config, id)
	if err != nil {
		return err
	}
	r.Expires = at
	return writeRecord(s.path(config, id), r)
}

// Delete ends a sandbox: it is gone at once for everybody, what uses it is
// cancelled and waited for, and its files are removed. An absent one is
// ErrAbsent. When ctx ends first, the files are removed at the next Open.
func (s *Store) Delete(ctx context.Context, config, id string) error {
	if !name.MatchString(config) || !name.MatchString(id) {
		return ErrAbsent
	}
	trash := filepath.Join(s.dir, "trash", randomName())
	if err := os.Rename(s.path(config, id), trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return ErrAbsent
		}
		return fmt.Errorf("delete sandbox: %w", err)
	}
	if b := s.forget(key{config, id}); b != nil {
		b.cancel(errDeleted)
		select {
		case <-b.unused:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := os.RemoveAll(trash); err != nil {
		return fmt.Errorf("delete sandbox: %w", err)
	}
	return nil
}

var errDeleted = errors.New("the sandbox was deleted")

// Dir makes a directory for one run and returns how to remove it.
func (s *Store) Dir() (path string, remove func() error, err error) {
	path = filepath.Join(s.work, randomName())
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", nil, fmt.Errorf("make a run directory: %w", err)
	}
	return path, func() error { return os.RemoveAll(path) }, nil
}

func writeRecord(dir string, r Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, "record.json"), b)
}

func readRecord(dir string) (Record, error) {
	var r Record
	b, err := os.ReadFile(filepath.Join(dir, "record.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, ErrAbsent
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("sandbox record: %w", err)
	}
	if r.Schema != recordSchema {
		return r, fmt.Errorf("sandbox record has schema %d, this version reads %d", r.Schema, recordSchema)
	}
	return r, nil
}

// replaceFile writes a file as a whole or not at all.
func replaceFile(path string, b []byte) error {
	tmp := path + "." + randomName()
	err := os.WriteFile(tmp, b, 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

func touch(dir string, at time.Time) error { return os.Chtimes(filepath.Join(dir, "active"), at, at) }

func randomName() string {
	var b [12]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
