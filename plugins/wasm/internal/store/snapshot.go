package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
	"golang.org/x/sys/unix"
)

// ErrNoSnapshot: there is no snapshot of that id.
var ErrNoSnapshot = errors.New("no such snapshot")

// SnapshotRecord is what is known of a snapshot. It never changes.
type SnapshotRecord struct {
	Schema  int               `json:"schema"`
	Config  string            `json:"config"`
	ID      string            `json:"id"`
	Created time.Time         `json:"created"`
	Name    string            `json:"name,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Source is the metadata of the sandbox that it was taken of.
	Source backend.Metadata `json:"source"`
	// Bytes and Entries are what the files count for in a sandbox's account.
	Bytes   int64 `json:"bytes"`
	Entries int64 `json:"entries"`
}

func (s *Store) snapshotPath(config, id string) string {
	return filepath.Join(s.dir, "snapshots", config, id)
}

// Snapshot keeps the files of a sandbox as they are between two of its runs. It
// waits for its turn. A crash leaves all of the snapshot or nothing.
func (s *Store) Snapshot(ctx context.Context, b *Sandbox, name string, labels map[string]string) (SnapshotRecord, error) {
	ctx, done, err := b.Turn(ctx)
	if err != nil {
		return SnapshotRecord{}, err
	}
	defer done()
	r := SnapshotRecord{
		Schema: recordSchema, Config: b.key.config, ID: randomName(), Created: s.now().UTC(),
		Name: name, Labels: labels, Source: b.Record.Metadata,
	}
	stage := filepath.Join(s.work, randomName())
	if err := s.stageSnapshot(ctx, stage, b, &r); err != nil {
		if b.Deleted() {
			err = ErrAbsent
		}
		return SnapshotRecord{}, errors.Join(fmt.Errorf("take snapshot: %w", err), os.RemoveAll(stage))
	}
	return r, nil
}

func (s *Store) stageSnapshot(ctx context.Context, stage string, b *Sandbox, r *SnapshotRecord) error {
	data := filepath.Join(stage, "data")
	for _, dir := range []string{stage, data} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(data)
	if err != nil {
		return err
	}
	defer root.Close()
	if r.Bytes, r.Entries, err = copyTree(ctx, root, b.Data, b.Quota.Limits()); err != nil {
		return err
	}
	if err := newRecord(stage, r, r.Created); err != nil {
		return err
	}
	return moveTo(stage, s.snapshotPath(r.Config, r.ID))
}

// restore fills a sandbox that nobody has seen yet from a snapshot, and charges it.
func (s *Store) restore(ctx context.Context, config, id string, b *Sandbox) error {
	if !nameRule.MatchString(id) {
		return ErrNoSnapshot
	}
	path := s.snapshotPath(config, id)
	// While the lock is held the files stay, whoever deletes the snapshot.
	lock, err := lockDir(path, unix.LOCK_SH)
	if err != nil {
		// Who deletes one moves it away before taking the exclusive lock.
		if errors.Is(absent(err), ErrAbsent) || errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrNoSnapshot
		}
		return err
	}
	defer lock.close()
	r, err := s.LookSnapshot(config, id)
	if err != nil {
		return err
	}
	if owner := r.Source.Tenant; owner != "" && owner != b.Record.Metadata.Tenant {
		return ErrNoSnapshot // as if it were not there
	}
	if err := b.Quota.Charge(r.Bytes, r.Entries); err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Join(path, "data"))
	if err == nil {
		defer root.Close()
		err = lock.at(path)
	}
	if errors.Is(absent(err), ErrAbsent) || errors.Is(err, errMoved) {
		return ErrNoSnapshot
	}
	if err != nil {
		return err
	}
	bytes, entries, err := copyTree(ctx, b.Data, root, b.Quota.Limits())
	if err == nil && (bytes != r.Bytes || entries != r.Entries) {
		err = fmt.Errorf("snapshot %s is damaged: it has %d bytes in %d files and directories, its record says %d in %d", id, bytes, entries, r.Bytes, r.Entries)
	}
	return err
}

// LookSnapshot describes a snapshot, or is ErrNoSnapshot.
func (s *Store) LookSnapshot(config, id string) (SnapshotRecord, error) {
	var r SnapshotRecord
	if !nameRule.MatchString(config) || !nameRule.MatchString(id) {
		return r, ErrNoSnapshot
	}
	_, err := readRecord(s.snapshotPath(config, id), &r)
	switch {
	case errors.Is(err, ErrAbsent):
		err = ErrNoSnapshot
	case err != nil:
	case r.Schema != recordSchema:
		err = fmt.Errorf("snapshot record has schema %d, this version reads %d", r.Schema, recordSchema)
	case r.Config != config || r.ID != id:
		err = fmt.Errorf("%w: it belongs to another snapshot", ErrDamaged)
	}
	return r, err
}

// SnapshotIDs calls fn with the id of every snapshot of a config, in no order.
func (s *Store) SnapshotIDs(config string, fn func(id string) error) error {
	if !nameRule.MatchString(config) {
		return nil
	}
	return names(filepath.Join(s.dir, "snapshots", config), func(name string) error {
		if !nameRule.MatchString(name) {
			return nil
		}
		return fn(name)
	})
}

// CountSnapshots returns how many snapshots a config has.
func (s *Store) CountSnapshots(config string) (int, error) {
	if !nameRule.MatchString(config) {
		return 0, nil
	}
	return count(filepath.Join(s.dir, "snapshots", config))
}

// DeleteSnapshot forgets a snapshot; sandboxes made from it have their own files.
// An absent one is ErrNoSnapshot.
func (s *Store) DeleteSnapshot(ctx context.Context, config, id string) error {
	if !nameRule.MatchString(config) || !nameRule.MatchString(id) {
		return ErrNoSnapshot
	}
	trash, err := s.discard(s.snapshotPath(config, id))
	if errors.Is(err, ErrAbsent) {
		return ErrNoSnapshot
	}
	if err != nil {
		return err
	}
	return s.bury(ctx, trash)
}
