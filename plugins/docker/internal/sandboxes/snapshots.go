package sandboxes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/caisson-run/caisson/plugins/docker/internal/engine"
	"github.com/caisson-run/caisson/sdk/backend"
)

// A snapshot is an image: what a container's file system was. Forks, snapshots whose
// labels say LabelFork, have a repository of their own and are listed only when asked
// for, so that whoever keeps one kind tidy never touches the other.
const (
	repoSnapshot = "caisson-snapshot"
	repoFork     = "caisson-fork"
	// LabelFork marks a snapshot that exists to fork a session.
	LabelFork = "fork"

	labelSnapshot = "caisson.snapshot" // its id
	labelSnapMeta = "caisson.snapshot.about"
)

// about is what a snapshot's label holds.
type about struct {
	Name    string            `json:"name,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Created time.Time         `json:"created"`
}

var snapshotID = regexp.MustCompile(`^(snap|fork)-[a-z2-7]{16}$`)

// reference is where a snapshot is kept.
func reference(id string) string {
	repo := repoSnapshot
	if strings.HasPrefix(id, "fork-") {
		repo = repoFork
	}
	return repo + ":" + id
}

func imageLabel(i image.InspectResponse, name string) (string, bool) {
	if i.Config == nil {
		return "", false
	}
	v, ok := i.Config.Labels[name]
	return v, ok
}

func snapshotAbsent(op, id string) error {
	e := engine.Errorf(backend.KindNotFound, op, backend.SubjectSnapshot, "no snapshot %q", id[:min(len(id), 64)])
	e.Plane = backend.PlaneControl
	return e
}

// Snapshot keeps what a sandbox's files are now. The engine freezes it meanwhile.
func (b *Backend) Snapshot(ctx context.Context, ref backend.Ref, name string, labels map[string]string) (backend.Snapshot, error) {
	const op = "Snapshot"
	c, err := b.config(op, ref.Config)
	if err != nil {
		return backend.Snapshot{}, err
	}
	if len(name) > 256 {
		return backend.Snapshot{}, engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectSnapshot, "name: is longer than 256 bytes")
	}
	got, _, err := b.look(ctx, op, c, ref.ID)
	if err != nil {
		return backend.Snapshot{}, err
	}
	if c.set.MaxSnapshots > 0 {
		unlock, err := b.sessions.lock(ctx, "snapshots of "+c.id)
		if err != nil {
			return backend.Snapshot{}, err
		}
		defer unlock()
		all, err := b.snapshots(ctx, op, c)
		if err != nil {
			return backend.Snapshot{}, err
		}
		if len(all) >= c.set.MaxSnapshots {
			return backend.Snapshot{}, engine.Errorf(backend.KindCapacity, op, backend.SubjectSnapshot, "%d snapshots are kept, which is as many as max_snapshots allows", len(all))
		}
	}
	id := "snap-" + strings.ToLower(rand.Text()[:16])
	if _, fork := labels[LabelFork]; fork {
		id = "fork-" + id[len("snap-"):]
	}
	meta := about{Name: name, Labels: labels, Created: b.o.Now().UTC()}
	text, err := json.Marshal(meta)
	if err != nil {
		return backend.Snapshot{}, engine.Errorf(backend.KindInvalidRequest, op, backend.SubjectSnapshot, "labels: %w", err)
	}
	// The image must not say that it is the sandbox it was made from.
	keep := map[string]string{
		labelConfig: c.id, labelOwner: b.owner.installation, labelSnapshot: id, labelSnapMeta: string(text),
		labelRecord: "", labelSession: "", labelTenant: "", labelHost: "", labelMaker: "", labelSocket: "",
	}
	paused := got.State.Status == container.StatePaused
	_, err = c.eng.Client(ctx).ContainerCommit(ctx, got.ID, container.CommitOptions{
		Reference: reference(id), Pause: !paused, Config: &container.Config{Labels: keep},
	})
	if err != nil {
		if ctx.Err() != nil { // it may have been made all the same
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
			defer cancel()
			_, _ = c.eng.Client(clean).ImageRemove(clean, reference(id), image.RemoveOptions{PruneChildren: true})
		}
		return backend.Snapshot{}, engine.Fail(ctx, op, backend.SubjectSandbox, err)
	}
	out := backend.Snapshot{ID: id, Name: name, Labels: labels, Created: meta.Created}
	short, cancel := engine.Short(ctx)
	defer cancel()
	if made, err := c.eng.Client(short).ImageInspect(short, reference(id)); err == nil {
		out.Bytes = made.Size
	}
	return out, nil
}

// snapshots lists those of a config, forks included.
func (b *Backend) snapshots(ctx context.Context, op string, c *config) ([]backend.Snapshot, error) {
	short, cancel := engine.Short(ctx)
	defer cancel()
	all, err := c.eng.Client(short).ImageList(short, image.ListOptions{Filters: c.filter(filters.Arg("label", labelSnapshot))})
	if err != nil {
		return nil, engine.Fail(ctx, op, backend.SubjectSnapshot, err)
	}
	var out []backend.Snapshot
	for _, i := range all {
		id := i.Labels[labelSnapshot]
		var meta about
		if !snapshotID.MatchString(id) || json.Unmarshal([]byte(i.Labels[labelSnapMeta]), &meta) != nil {
			continue
		}
		for _, tag := range i.RepoTags {
			if tag == reference(id) { // one that was deleted may live on under others
				out = append(out, backend.Snapshot{ID: id, Name: meta.Name, Labels: meta.Labels, Created: meta.Created, Bytes: i.Size})
			}
		}
	}
	return out, nil
}

// ListSnapshots returns those that carry all labels; forks only when asked for.
func (b *Backend) ListSnapshots(ctx context.Context, config string, labels map[string]string) ([]backend.Snapshot, error) {
	const op = "ListSnapshots"
	c, err := b.config(op, config)
	if err != nil {
		return nil, err
	}
	all, err := b.snapshots(ctx, op, c)
	if err != nil {
		return nil, err
	}
	_, forks := labels[LabelFork]
	var out []backend.Snapshot
	for _, s := range all {
		matches := strings.HasPrefix(s.ID, "fork-") == forks
		for k, v := range labels {
			got, ok := s.Labels[k]
			matches = matches && ok && got == v
		}
		if matches {
			out = append(out, s)
		}
	}
	return out, nil
}

// DeleteSnapshot forgets a snapshot, with the layers that nothing else needs. What a
// container still stands on stays for as long as that does.
func (b *Backend) DeleteSnapshot(ctx context.Context, config, id string) error {
	const op = "DeleteSnapshot"
	c, err := b.config(op, config)
	if err != nil {
		return err
	}
	if _, err := b.snapshotImage(ctx, op, c, id); err != nil {
		if backend.KindOf(err) == backend.KindNotFound {
			return nil
		}
		return err
	}
	err = removeImage(ctx, c, reference(id), false)
	if engine.IsConflict(err) {
		// In use: it loses its name now, and the sweep removes it after its containers.
		err = removeImage(ctx, c, reference(id), true)
	}
	return engine.Fail(ctx, op, backend.SubjectSnapshot, err)
}

// removeImage removes an image, and those that only it stood on. It is no error when
// somebody else did: when two remove the same at once, the engine fails one of them in
// the middle, and then the image is gone all the same.
func removeImage(ctx context.Context, c *config, ref string, force bool) error {
	_, err := c.eng.Client(ctx).ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true, Force: force})
	switch {
	case err == nil, engine.IsAbsent(err):
		return nil
	case engine.IsConflict(err), ctx.Err() != nil:
		return err
	}
	if _, gone := c.eng.Client(ctx).ImageInspect(ctx, ref); engine.IsAbsent(gone) {
		return nil
	}
	return err
}

// snapshotImage returns the image of a config's snapshot.
func (b *Backend) snapshotImage(ctx context.Context, op string, c *config, id string) (string, error) {
	if !snapshotID.MatchString(id) {
		return "", snapshotAbsent(op, id)
	}
	short, cancel := engine.Short(ctx)
	defer cancel()
	got, err := c.eng.Client(short).ImageInspect(short, reference(id))
	if engine.IsAbsent(err) {
		return "", snapshotAbsent(op, id)
	}
	if err != nil {
		return "", engine.Fail(ctx, op, backend.SubjectSnapshot, err)
	}
	if of, _ := imageLabel(got, labelConfig); of != c.id {
		return "", snapshotAbsent(op, id)
	}
	return got.ID, nil
}

// sweepImages removes snapshots of this installation that lost their name while they
// were in use.
func (b *Backend) sweepImages(ctx context.Context, c *config) {
	short, cancel := engine.Short(ctx)
	defer cancel()
	all, err := c.eng.Client(short).ImageList(short, image.ListOptions{Filters: c.filter(
		filters.Arg("label", labelSnapshot), filters.Arg("label", labelOwner+"="+b.owner.installation), filters.Arg("dangling", "true"),
	)})
	if err != nil {
		return
	}
	for _, i := range all {
		err := removeImage(ctx, c, i.ID, false)
		if err != nil && !engine.IsConflict(err) && !errors.Is(err, context.Canceled) {
			b.o.Log.Warn("a deleted snapshot is still there", "image", i.ID, "error", engine.Fail(ctx, "sweep", backend.SubjectSnapshot, err))
		}
	}
}
