package embedded

import (
	"context"
	"errors"
	"maps"
	"unicode/utf8"

	"github.com/caisson-run/caisson/plugins/wasm/internal/store"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Bounds on what is kept of a snapshot's name and labels.
const (
	maxSnapshotName   = 256
	maxSnapshotLabels = 64
	maxLabelBytes     = 1024
)

// Snapshot keeps the files of a sandbox as they are between two of its runs: it
// waits for the one under way. The snapshot belongs to the sandbox's tenant, counts
// for nothing in the sandbox's account, and outlives it.
func (b *Backend) Snapshot(ctx context.Context, ref backend.Ref, name string, labels map[string]string) (backend.Snapshot, error) {
	const op = "Snapshot"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return backend.Snapshot{}, err
	}
	if err := checkLabels(name, labels); err != nil {
		return backend.Snapshot{}, backend.Errorf(backend.KindInvalidRequest, op, "%w", err)
	}
	sb, err := b.use(op, ref)
	if err != nil {
		return backend.Snapshot{}, err
	}
	defer sb.Release()
	if c.MaxSnapshots > 0 {
		n, err := b.store.CountSnapshots(ref.Config)
		if err != nil {
			return backend.Snapshot{}, sandboxError(op, err)
		}
		if n >= c.MaxSnapshots {
			return backend.Snapshot{}, backend.Errorf(backend.KindCapacity, op, "%d snapshots are kept, which is as many as max_snapshots allows", n)
		}
	}
	r, err := b.store.Snapshot(ctx, sb, name, labels)
	if err != nil {
		return backend.Snapshot{}, sandboxError(op, err)
	}
	return snapshot(r), nil
}

func checkLabels(name string, labels map[string]string) error {
	if len(name) > maxSnapshotName || !utf8.ValidString(name) {
		return errors.New("name: must be at most 256 bytes of UTF-8")
	}
	if len(labels) > maxSnapshotLabels {
		return errors.New("labels: at most 64 are kept")
	}
	for k, v := range labels {
		if k == "" || len(k)+len(v) > maxLabelBytes || !utf8.ValidString(k) || !utf8.ValidString(v) {
			return errors.New("labels: a key must not be empty, and key and value together at most 1024 bytes of UTF-8")
		}
	}
	return nil
}

func snapshot(r store.SnapshotRecord) backend.Snapshot {
	return backend.Snapshot{ID: r.ID, Name: r.Name, Labels: maps.Clone(r.Labels), Created: r.Created, Bytes: r.Bytes}
}

// ListSnapshots returns those of a config that carry all labels.
func (b *Backend) ListSnapshots(ctx context.Context, config string, labels map[string]string) ([]backend.Snapshot, error) {
	const op = "ListSnapshots"
	if _, err := b.config(op, config); err != nil {
		return nil, err
	}
	var out []backend.Snapshot
	err := b.store.SnapshotIDs(config, func(id string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := b.store.LookSnapshot(config, id)
		switch {
		case errors.Is(err, store.ErrNoSnapshot):
		case err != nil:
			b.o.Log.Error("snapshot cannot be read", "snapshot", id, "error", err)
		case carries(r.Labels, labels):
			out = append(out, snapshot(r))
		}
		return nil
	})
	if err != nil {
		return nil, sandboxError(op, err)
	}
	return out, nil
}

func carries(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// DeleteSnapshot forgets one. Sandboxes made from it keep their files.
func (b *Backend) DeleteSnapshot(ctx context.Context, config, id string) error {
	const op = "DeleteSnapshot"
	if _, err := b.config(op, config); err != nil {
		return err
	}
	err := b.store.DeleteSnapshot(ctx, config, id)
	if errors.Is(err, store.ErrNoSnapshot) {
		return nil
	}
	return sandboxError(op, err)
}
