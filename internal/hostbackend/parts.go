package hostbackend

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// snapshot is a copy of a sandbox's tree.
type snapshot struct {
	config string
	dir    string
	about  backend.Snapshot
}

// Snapshot implements backend.Snapshotter.
func (b *Backend) Snapshot(ctx context.Context, ref backend.Ref, name string, labels map[string]string) (backend.Snapshot, error) {
	const op = "Snapshot"
	x, err := b.awake(ctx, op, ref)
	if err != nil {
		return backend.Snapshot{}, err
	}
	dir, err := os.MkdirTemp(b.base, "snapshot")
	if err == nil {
		err = os.CopyFS(dir, x.root.FS())
	}
	if err != nil {
		return backend.Snapshot{}, backend.Errorf(backend.KindInternal, op, "%w", err)
	}
	s := snapshot{config: ref.Config, dir: dir, about: backend.Snapshot{
		ID: filepath.Base(dir), Name: name, Labels: maps.Clone(labels), Created: time.Now().UTC(),
	}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snapshots[s.about.ID] = s
	return s.about, nil
}

// restore fills a new sandbox from a snapshot. It is called with mu held.
func (b *Backend) restore(config, id, dir string) error {
	s, ok := b.snapshots[id]
	if !ok || s.config != config {
		e := backend.Errorf(backend.KindNotFound, "Create", "there is no such snapshot")
		e.Subject, e.Plane = backend.SubjectSnapshot, backend.PlaneControl
		return e
	}
	return os.CopyFS(dir, os.DirFS(s.dir))
}

// ListSnapshots implements backend.Snapshotter.
func (b *Backend) ListSnapshots(ctx context.Context, config string, labels map[string]string) ([]backend.Snapshot, error) {
	if err := b.known("ListSnapshots", config); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []backend.Snapshot
	for _, s := range b.snapshots {
		match := s.config == config
		for k, v := range labels {
			got, ok := s.about.Labels[k]
			match = match && ok && got == v
		}
		if match {
			out = append(out, s.about)
		}
	}
	return out, ctx.Err()
}

// DeleteSnapshot implements backend.Snapshotter.
func (b *Backend) DeleteSnapshot(_ context.Context, config, id string) error {
	if err := b.known("DeleteSnapshot", config); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.snapshots[id]
	if !ok || s.config != config {
		return nil
	}
	delete(b.snapshots, id)
	return os.RemoveAll(s.dir)
}

// DialPort implements backend.PortDialer: a port of this machine.
func (b *Backend) DialPort(ctx context.Context, ref backend.Ref, port int) (net.Conn, error) {
	const op = "DialPort"
	if _, err := b.awake(ctx, op, ref); err != nil {
		return nil, err
	}
	if port < 1 || port > 65535 {
		return nil, backend.Errorf(backend.KindInvalidRequest, op, "port %d is none", port)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, backend.Errorf(backend.KindUnavailable, op, "%w", err)
	}
	return conn, nil
}

// watchInterval is how often Watch looks.
const watchInterval = 10 * time.Millisecond

// Watch implements backend.Watcher by looking again and again.
func (b *Backend) Watch(ctx context.Context, ref backend.Ref, root string, recursive bool, fn func(backend.WatchEvent) error) error {
	req := backend.WalkRequest{Ref: ref, Root: root}
	if !recursive {
		req.MaxDepth = 1
	}
	look := func() (map[string]backend.Entry, error) {
		res, err := b.Walk(ctx, req)
		seen := make(map[string]backend.Entry, len(res.Entries))
		for _, e := range res.Entries {
			seen[e.Path] = e
		}
		return seen, err
	}
	before, err := look()
	if err != nil {
		return err
	}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		after, err := look()
		if err != nil {
			return err
		}
		var events []backend.WatchEvent
		for p, e := range after {
			switch old, ok := before[p]; {
			case !ok:
				events = append(events, backend.WatchEvent{Path: p, Op: "create"})
			case old != e:
				events = append(events, backend.WatchEvent{Path: p, Op: "write"})
			}
		}
		for p := range before {
			if _, ok := after[p]; !ok {
				events = append(events, backend.WatchEvent{Path: p, Op: "remove"})
			}
		}
		for _, e := range events {
			if err := fn(e); err != nil {
				return err
			}
		}
		before = after
	}
}
