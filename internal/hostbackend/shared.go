package hostbackend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// Shared is how sandboxes are kept that several backends share, in one process or in
// many: each is a directory, which is the only truth, as a provider's account is.
type Shared struct {
	// Named: a sandbox is called like its session, so that a second one is a conflict.
	// Otherwise the backend makes names up.
	Named bool
	// Delay is how long making and deleting take, before and after the moment that
	// they happen.
	Delay time.Duration
}

// SharedBackend is a backend over shared sandboxes. It offers what a directory can
// stand for, and none of Backend's optional parts.
type SharedBackend struct {
	backend.Backend
	b *Backend
}

// NewShared makes a backend over the sandboxes below base, which stay when it ends.
func NewShared(base string, o Shared) *SharedBackend {
	b := New(base)
	b.shared = &o
	return &SharedBackend{b, b}
}

// Close lets go of the sandboxes.
func (s *SharedBackend) Close() error { return s.b.Close() }

// What a shared sandbox's directory holds. Names that begin with a dot are of
// sandboxes that do not exist yet, or not any more.
const (
	aboutFile = "about.json"
	rootDir   = "root"
)

func (b *Backend) pause(ctx context.Context) error {
	t := time.NewTimer(b.shared.Delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// record is a sandbox on the disk.
type record struct {
	backend.Sandbox
	Env map[string]string `json:"env"`
}

// describe reads a sandbox from its directory. Its last activity is the file's time.
func (b *Backend) describe(id string) (record, error) {
	var sb record
	name := filepath.Join(b.base, id, aboutFile)
	text, err := os.ReadFile(name)
	if err != nil {
		return sb, err
	}
	if err := json.Unmarshal(text, &sb); err != nil {
		return sb, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return sb, err
	}
	sb.LastActive = info.ModTime().UTC()
	return sb, nil
}

// sharedBox returns a sandbox as it is on the disk now, whoever made it.
func (b *Backend) sharedBox(op string, ref backend.Ref) (*box, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.boxes[ref]
	about, err := record{}, fs.ErrNotExist
	if ref.ID != "" && !strings.ContainsAny(ref.ID, "./\x00") {
		about, err = b.describe(ref.ID)
	}
	if err == nil && about.Ref == ref && known != nil && known.about.Created.Equal(about.Created) {
		known.about = about.Sandbox
		return known, nil
	}
	if known != nil {
		delete(b.boxes, ref)
		_ = known.root.Close()
	}
	if errors.Is(err, fs.ErrNotExist) || (err == nil && about.Ref != ref) {
		e := backend.Errorf(backend.KindNotFound, op, "there is no such sandbox")
		e.Subject, e.Plane = backend.SubjectSandbox, backend.PlaneControl
		return nil, e
	}
	if err != nil {
		return nil, backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	dir := filepath.Join(b.base, ref.ID, rootDir)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	x := &box{dir: dir, root: root, env: about.Env, about: about.Sandbox}
	b.boxes[ref] = x
	return x, nil
}

// createShared makes a sandbox at one moment, that of a rename.
func (b *Backend) createShared(ctx context.Context, spec backend.CreateSpec) (backend.Sandbox, error) {
	const op = "Create"
	internal := func(err error) (backend.Sandbox, error) {
		return backend.Sandbox{}, backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	if spec.Snapshot != "" || spec.Timeout.Action == backend.TimeoutPause || spec.Timeout.AutoResume {
		return backend.Sandbox{}, backend.Errorf(backend.KindUnsupported, op, "snapshots and pauses")
	}
	id := spec.Session
	if !b.shared.Named {
		id = "box-" + rand.Text()
	}
	stage, err := os.MkdirTemp(b.base, ".new-")
	if err != nil {
		return internal(err)
	}
	defer os.RemoveAll(stage)
	for _, d := range []string{backend.DataDir, backend.TmpDir, "/stage"} {
		if err := os.MkdirAll(filepath.Join(stage, rootDir, d), 0o755); err != nil {
			return internal(err)
		}
	}
	if err := b.pause(ctx); err != nil {
		return backend.Sandbox{}, err
	}
	metadata := spec.Metadata
	metadata.Labels = maps.Clone(metadata.Labels)
	now := time.Now().UTC()
	sb := backend.Sandbox{Ref: backend.Ref{Config: spec.Config, ID: id}, State: backend.StateRunning, Metadata: metadata, Created: now, LastActive: now}
	text, err := json.Marshal(record{sb, spec.Env})
	if err == nil {
		err = os.WriteFile(filepath.Join(stage, aboutFile), text, 0o600)
	}
	if err != nil {
		return internal(err)
	}
	err = os.Rename(stage, filepath.Join(b.base, id))
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
		e := backend.Errorf(backend.KindConflict, op, "the session has a sandbox")
		e.Subject, e.Plane = backend.SubjectSandbox, backend.PlaneControl
		return backend.Sandbox{}, e
	}
	if err != nil {
		return internal(err)
	}
	return sb, b.pause(ctx)
}

func (b *Backend) listShared(f backend.ListFilter) ([]backend.Sandbox, error) {
	entries, err := os.ReadDir(b.base)
	if err != nil {
		return nil, backend.Errorf(backend.KindInternal, "List", "%w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
	var out []backend.Sandbox
	for _, e := range entries {
		sb, err := b.describe(e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, backend.Errorf(backend.KindInternal, "List", "%w", err)
		}
		if f.Matches(sb.Sandbox) {
			out = append(out, sb.Sandbox)
		}
	}
	return out, nil
}

// deleteShared ends a sandbox at one moment, that of a rename.
func (b *Backend) deleteShared(ctx context.Context, ref backend.Ref) error {
	const op = "Delete"
	if err := b.pause(ctx); err != nil {
		return err
	}
	gone := filepath.Join(b.base, ".gone-"+rand.Text())
	err := os.Rename(filepath.Join(b.base, ref.ID), gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.RemoveAll(gone)
	}
	if err != nil {
		return backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	return b.pause(ctx)
}

// touch counts as activity in a shared sandbox.
func (b *Backend) touch(x *box) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(filepath.Dir(x.dir), aboutFile), now, now)
	x.about.LastActive = now.UTC()
}
