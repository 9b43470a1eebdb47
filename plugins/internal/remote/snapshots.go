package remote

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"slices"
	"strings"

	"github.com/caisson-run/caisson/plugins/internal/control"
	"github.com/caisson-run/caisson/plugins/internal/envd/fault"
	"github.com/caisson-run/caisson/sdk/backend"
)

// Providers keep a name with a snapshot and nothing else. So the name holds what it
// is found by: a marker, something random, the config and each label, the latter as
// digests, and what people call it:
//
//	csn-RANDOM-CONFIG-LABEL-LABEL-x-NAME
//
// Digests have 40 bits. A listing by labels that nobody gave matches by accident once
// in 10^12; whoever asks by labels that were given always finds the snapshot.
const (
	snapshotMark = "csn"
	nameMark     = "x"
	maxName      = 128
)

var digits = base32.NewEncoding("abcdefghijklmnopqrstuvwyz2345679").WithPadding(base32.NoPadding) // without x: see nameMark

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return digits.EncodeToString(sum[:5])
}

// snapshotName makes a name; ok is false when there are more labels than fit.
func snapshotName(config, name string, labels map[string]string) (string, bool) {
	parts := []string{snapshotMark, nonce()[:12], digest("config", config)}
	for _, k := range sortedKeys(labels) {
		parts = append(parts, digest("label", k, labels[k]))
	}
	full := strings.Join(parts, "-")
	if len(full) > maxName {
		return "", false
	}
	if slug := slugOf(name); slug != "" && len(full)+len(nameMark)+2 < maxName {
		full = (full + "-" + nameMark + "-" + slug)
		full = strings.TrimRight(full[:min(len(full), maxName)], "-_")
	}
	return full, true
}

// parseSnapshot takes a name apart. ok is false for snapshots that are not ours.
func parseSnapshot(name string) (config string, labels []string, given string, ok bool) {
	name = name[strings.LastIndex(name, "/")+1:] // the team's namespace
	name, _, _ = strings.Cut(name, ":")
	head, given, _ := strings.Cut(name, "-"+nameMark+"-")
	parts := strings.Split(head, "-")
	if len(parts) < 3 || parts[0] != snapshotMark {
		return "", nil, "", false
	}
	return parts[2], parts[3:], given, true
}

var notSlug = regexp.MustCompile(`[^a-z0-9_]+`)

func slugOf(name string) string {
	return strings.Trim(notSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Snapshot implements backend.Snapshotter. A sandbox that is busy with something else
// is a KindConflict or KindUnavailable: the same call may succeed a moment later.
func (b *Backend) Snapshot(ctx context.Context, ref backend.Ref, name string, labels map[string]string) (backend.Snapshot, error) {
	const op = "Snapshot"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return backend.Snapshot{}, err
	}
	if err := c.running(ctx, op, ref.ID); err != nil {
		return backend.Snapshot{}, err
	}
	full, ok := snapshotName(c.id, name, labels)
	if !ok {
		return backend.Snapshot{}, b.fail(op, backend.KindInvalidRequest, "labels: the provider has no place for %d", len(labels))
	}
	s, err := c.API.TakeSnapshot(ctx, op, c.named(ref.ID), full)
	if err != nil {
		return backend.Snapshot{}, c.confirm(ctx, op, ref.ID, err)
	}
	c.data.Refresh()
	return backend.Snapshot{ID: s.SnapshotID, Name: name, Labels: labels, Created: b.p.Now()}, nil
}

// ListSnapshots implements backend.Snapshotter. Of a snapshot's labels those are
// returned that were asked for.
func (b *Backend) ListSnapshots(ctx context.Context, config string, labels map[string]string) ([]backend.Snapshot, error) {
	const op = "ListSnapshots"
	c, err := b.config(op, config)
	if err != nil {
		return nil, err
	}
	all, err := c.API.Snapshots(ctx, op)
	if err != nil {
		return nil, err
	}
	var found []backend.Snapshot
	for _, s := range all {
		name, ok := c.ours(s)
		if !ok || !hasLabels(s, labels) {
			continue
		}
		found = append(found, backend.Snapshot{ID: s.SnapshotID, Name: name, Labels: labels, Created: s.CreatedAt})
	}
	return found, nil
}

// ours reports whether a snapshot was made by this config, and what it was called.
func (c *config) ours(s control.Snapshot) (string, bool) {
	for _, n := range append(slices.Clone(s.Names), s.SnapshotID) {
		if config, _, given, ok := parseSnapshot(n); ok {
			return given, config == digest("config", c.id)
		}
	}
	return "", false
}

func hasLabels(s control.Snapshot, labels map[string]string) bool {
	for _, n := range append(slices.Clone(s.Names), s.SnapshotID) {
		if _, has, _, ok := parseSnapshot(n); ok {
			for k, v := range labels {
				if !slices.Contains(has, digest("label", k, v)) {
					return false
				}
			}
			return true
		}
	}
	return false
}

// DeleteSnapshot implements backend.Snapshotter. One of another config is absent.
func (b *Backend) DeleteSnapshot(ctx context.Context, config, id string) error {
	const op = "DeleteSnapshot"
	c, err := b.config(op, config)
	if err != nil {
		return err
	}
	all, err := c.API.Snapshots(ctx, op)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(s control.Snapshot) bool { return s.SnapshotID == id })
	if i < 0 {
		return nil
	}
	if _, ok := c.ours(all[i]); !ok {
		return nil
	}
	err = c.API.DropTemplate(ctx, op, fault.Snapshot, id)
	if backend.IsNotFound(err) {
		return nil
	}
	return err
}
