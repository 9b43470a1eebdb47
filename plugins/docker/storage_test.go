package main

import (
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/caisson-run/caisson/plugins/docker/internal/sandboxes"
	"github.com/caisson-run/caisson/sdk/backend"
)

// TestSnapshots: a snapshot starts sandboxes of its own, forks are kept apart, and what
// is deleted goes, also when a sandbox still stands on it.
func TestSnapshots(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		b := one(t, way, map[string]any{"max_snapshots": 2})
		s := b.(backend.Snapshotter)
		sb := mustCreate(t, b, specOf(sessionName("origin")))
		write(t, b, sb.Ref, dataFile, "kept")
		run(t, b, bash(sb.Ref, "mkdir dir && echo made >dir/by-program.txt"))
		snap, err := s.Snapshot(t.Context(), sb.Ref, "a name", map[string]string{"k": "v"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.DeleteSnapshot(t.Context(), "c", snap.ID)
		fork, err := s.Snapshot(t.Context(), sb.Ref, "", map[string]string{sandboxes.LabelFork: "1"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.DeleteSnapshot(t.Context(), "c", fork.ID)
		_, err = s.Snapshot(t.Context(), sb.Ref, "", nil)
		wantKind(t, "a third snapshot", err, backend.KindCapacity)
		ids := func(labels map[string]string) string {
			t.Helper()
			list, err := s.ListSnapshots(t.Context(), "c", labels)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, l := range list {
				out = append(out, l.ID)
			}
			return strings.Join(out, " ")
		}
		if got := ids(nil); got != snap.ID {
			t.Errorf("listed %s, want %s", got, snap.ID)
		}
		if got := ids(map[string]string{sandboxes.LabelFork: "1"}); got != fork.ID {
			t.Errorf("forks listed %s, want %s", got, fork.ID)
		}
		write(t, b, sb.Ref, dataFile, "changed since")
		for _, from := range []string{snap.ID, fork.ID} {
			spec := specOf(sessionName("copy"))
			spec.Snapshot, spec.Metadata.Tenant = from, "another"
			copied := mustCreate(t, b, spec)
			if got := read(t, b, copied.Ref, dataFile); got != "kept" {
				t.Errorf("the copy holds %q", got)
			}
			if _, l := run(t, b, bash(copied.Ref, "cat dir/by-program.txt; echo more >>dir/by-program.txt && rm kept.txt")); l.stdout.String() != "made\n" || l.stderr.String() != "" {
				t.Errorf("a program in the copy: %q, %q", l.stdout.String(), l.stderr.String())
			}
			if got, err := b.Get(t.Context(), copied.Ref); err != nil || got.Metadata.Tenant != "another" {
				t.Errorf("the copy is %+v, %v", got, err)
			}
			if err := s.DeleteSnapshot(t.Context(), "c", from); err != nil {
				t.Errorf("deleting what a sandbox stands on: %v", err)
			}
			if got := read(t, b, copied.Ref, backend.DataDir+"/dir/by-program.txt"); got != "made\nmore\n" {
				t.Errorf("afterwards the copy holds %q", got)
			}
			spec.Session = sessionName("late")
			spec.Metadata.Session = spec.Session
			_, err := b.Create(t.Context(), spec)
			wantKind(t, "a deleted snapshot", err, backend.KindNotFound)
			if backend.ProvesGone(err) {
				t.Errorf("an absent snapshot proves that a sandbox is gone: %v", err)
			}
		}
		if got := ids(nil) + ids(map[string]string{sandboxes.LabelFork: "1"}); got != "" {
			t.Errorf("after deleting: %s", got)
		}
		if err := s.DeleteSnapshot(t.Context(), "c", "../x"); err != nil {
			t.Errorf("deleting nothing: %v", err)
		}
	})
}

// TestNoImagesLeft: deleted snapshots leave no image once their sandboxes are gone.
func TestNoImagesLeft(t *testing.T) {
	cl := needEngine(t)
	sameContainers(t, cl)
	count := func() int {
		all, err := cl.ImageList(t.Context(), image.ListOptions{All: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := count()
	b := openBackend(t, shortDir(t), false, func(o *sandboxes.Options) { o.SweepEvery = 100 * time.Millisecond })
	t.Cleanup(func() { closeBackend(t, b) })
	if err := b.OpenConfig(t.Context(), "c", testConfig(t, map[string]any{"agent": "off"})); err != nil {
		t.Fatal(err)
	}
	sb := mustCreate(t, b, specOf(sessionName("images")))
	first, err := b.Snapshot(t.Context(), sb.Ref, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf(sessionName("second"))
	spec.Snapshot = first.ID
	from := mustCreate(t, b, spec)
	second, err := b.Snapshot(t.Context(), from.Ref, "", nil) // stands on the first
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []error{
		b.DeleteSnapshot(t.Context(), "c", first.ID), b.DeleteSnapshot(t.Context(), "c", second.ID), b.Delete(t.Context(), from.Ref),
	} {
		if step != nil {
			t.Error(step)
		}
	}
	await(t, "end of the images", func() bool { return count() <= before })
}

// TestVolumes: a named volume outlives the sandboxes that mount it, and programs can
// write to it.
func TestVolumes(t *testing.T) {
	eachWay(t, func(t *testing.T, cl *client.Client, way string) {
		b := one(t, way, map[string]any{"volumes": true})
		m := b.(backend.VolumeManager)
		name := sessionName("vol")
		mount := func(path string, readOnly bool) backend.CreateSpec {
			spec := specOf(sessionName("mounts"))
			spec.Volumes = []backend.VolumeMount{{Name: name, Path: path, ReadOnly: readOnly}}
			return spec
		}
		_, err := b.Create(t.Context(), mount("/mnt/shared", false))
		wantKind(t, "an absent volume", err, backend.KindNotFound)
		for range 2 {
			if v, err := m.EnsureVolume(t.Context(), "c", name); err != nil || v.Name != name {
				t.Fatalf("EnsureVolume: %+v, %v", v, err)
			}
		}
		for _, path := range []string{"/", "/etc/x", "/mnt", backend.DataDir, "/.caisson/x", "relative", "/proc/x", "/tmp"} {
			_, err := b.Create(t.Context(), mount(path, false))
			wantKind(t, "a volume at "+path, err, backend.KindInvalidRequest)
		}
		first := mustCreate(t, b, mount("/mnt/shared", false))
		if res, l := run(t, b, bash(first.Ref, "echo one >/mnt/shared/f")); res.ExitCode != 0 {
			t.Fatalf("a program cannot write to its volume: %q", l.stderr.String())
		}
		wantKind(t, "deleting a volume in use", m.DeleteVolume(t.Context(), "c", name), backend.KindConflict)
		if err := b.Delete(t.Context(), first.Ref); err != nil {
			t.Fatal(err)
		}
		second := mustCreate(t, b, mount("/mnt/data/in", true))
		if res, l := run(t, b, bash(second.Ref, "cat in/f; echo two >in/f")); l.stdout.String() != "one\n" || res.ExitCode == 0 {
			t.Errorf("read-only: %+v, %q", res, l.stdout.String())
		}
		if list, err := m.ListVolumes(t.Context(), "c"); err != nil || len(list) != 1 || list[0].Name != name {
			t.Errorf("listed %+v, %v", list, err)
		}
		if err := b.Delete(t.Context(), second.Ref); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := m.DeleteVolume(t.Context(), "c", name); err != nil {
				t.Error(err)
			}
		}
		off := one(t, "off", nil)
		_, err = off.Create(t.Context(), mount("/mnt/shared", false))
		wantKind(t, "a volume that the operator has not allowed", err, backend.KindUnsupported)
	})
}
