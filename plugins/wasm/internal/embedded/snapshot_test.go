package embedded

import (
	"io"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend"
)

func TestSnapshotRules(t *testing.T) {
	b, ref, _ := newStill(t, rootfs.DefaultLimits())
	ctx := t.Context()
	if err := b.OpenConfig(ctx, "c", []byte(`{"max_snapshots":2}`)); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"name too long": func() error { _, err := b.Snapshot(ctx, ref, strings.Repeat("n", 257), nil); return err }(),
		"name no UTF-8": func() error { _, err := b.Snapshot(ctx, ref, "\xff", nil); return err }(),
		"empty label":   func() error { _, err := b.Snapshot(ctx, ref, "", map[string]string{"": "x"}); return err }(),
		"label too long": func() error {
			_, err := b.Snapshot(ctx, ref, "", map[string]string{"k": strings.Repeat("v", 1024)})
			return err
		}(),
	} {
		if backend.KindOf(err) != backend.KindInvalidRequest {
			t.Errorf("%s: %v", what, err)
		}
	}
	first, err := b.Snapshot(ctx, ref, "first", map[string]string{"a": "1", "b": "2"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Snapshot(ctx, ref, "second", map[string]string{"a": "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Snapshot(ctx, ref, "third", nil); backend.KindOf(err) != backend.KindCapacity || backend.ProvesGone(err) {
		t.Errorf("one too many: %v", err)
	}
	for want, labels := range map[int]map[string]string{0: {"a": "2"}, 1: {"a": "1", "b": "2"}, 2: {"a": "1"}} {
		if list, err := b.ListSnapshots(ctx, "c", labels); err != nil || len(list) != want {
			t.Errorf("with %v there are %+v, %v", labels, list, err)
		}
	}
	if err := b.DeleteSnapshot(ctx, "c", first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Snapshot(ctx, ref, "third", nil); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
	spec := backend.CreateSpec{Config: "c", Session: "n", Snapshot: first.ID, Metadata: backend.Metadata{Config: "c", Session: "n"}}
	if _, err := b.Create(ctx, spec); backend.KindOf(err) != backend.KindNotFound || backend.ProvesGone(err) {
		t.Errorf("from one that is gone: %v", err)
	}
}

// A sandbox made from a snapshot is an ordinary one: bounded, and reported on from
// where it starts.
func TestSandboxFromSnapshot(t *testing.T) {
	b := newInstant(t)
	ctx := t.Context()
	ref := made(t, b, "src")
	if _, err := b.WriteFile(ctx, ref, backend.DataDir+"/f", backend.WriteOptions{}, strings.NewReader("0123456789")); err != nil {
		t.Fatal(err)
	}
	s, err := b.Snapshot(ctx, ref, "", nil)
	if err != nil || s.Bytes != 10 {
		t.Fatalf("%+v, %v", s, err)
	}
	spec := backend.CreateSpec{
		Config: "c", Session: "to", Snapshot: s.ID, Metadata: backend.Metadata{Config: "c", Session: "to", Tenant: "acme"},
		Limits: backend.Limits{DiskBytes: 15, DiskFiles: 2},
	}
	sb, err := b.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	runOnce(t, b, sb.Ref) // nothing changed: what it started with is not this run's
	for content, want := range map[string]backend.Kind{"123456": backend.KindCapacity, "12345": ""} {
		_, err := b.WriteFile(ctx, sb.Ref, backend.DataDir+"/g", backend.WriteOptions{}, strings.NewReader(content))
		if err == nil != (want == "") || want != "" && backend.KindOf(err) != want {
			t.Errorf("%d bytes more: %v", len(content), err)
		}
	}
	if err := b.MakeDir(ctx, sb.Ref, backend.DataDir+"/d"); backend.KindOf(err) != backend.KindCapacity {
		t.Errorf("a third entry: %v", err)
	}
	r, _, err := b.ReadFile(ctx, sb.Ref, backend.DataDir+"/f")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || string(got) != "0123456789" {
		t.Errorf("%q, %v", got, err)
	}
	spec.Session, spec.Metadata.Session, spec.Limits.DiskBytes = "small", "small", 9
	if _, err := b.Create(ctx, spec); backend.KindOf(err) != backend.KindCapacity || backend.ProvesGone(err) {
		t.Errorf("a sandbox smaller than the snapshot: %v", err)
	}
	spec.Session, spec.Metadata.Session, spec.Metadata.Tenant, spec.Limits.DiskBytes = "rival", "rival", "rival", 0
	if _, err := b.Create(ctx, spec); backend.KindOf(err) != backend.KindNotFound {
		t.Errorf("another tenant's snapshot: %v", err)
	}
	if list, err := b.List(ctx, backend.ListFilter{Config: "c"}); err != nil || len(list) != 2 {
		t.Errorf("there are %+v, %v", list, err)
	}
}
