package store

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// clones tells whether files in dir can share blocks.
func clones(tb testing.TB, dir string) bool {
	tb.Helper()
	in, err := os.Create(filepath.Join(dir, "in"))
	if err != nil {
		tb.Fatal(err)
	}
	defer in.Close()
	defer os.Remove(in.Name())
	if _, err := in.Write(make([]byte, 4096)); err != nil {
		tb.Fatal(err)
	}
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		tb.Fatal(err)
	}
	defer out.Close()
	defer os.Remove(out.Name())
	err = cloneFile(out, in)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		tb.Fatal(err)
	}
	return err == nil
}

// Where the file system can, a snapshot and what is made from it take no room for
// content until somebody writes. TMPDIR says where the test looks:
//
//	TMPDIR=/mnt/btrfs go test -run SharesBlocks ./plugins/wasm/internal/store
func TestSnapshotSharesBlocks(t *testing.T) {
	dir := t.TempDir()
	if !clones(t, dir) {
		t.Skip("files on this file system cannot share blocks")
	}
	s, err := Open(dir, Options{Quota: rootfs.Limits{Bytes: 64 << 20, Entries: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := create(t, s, "src")
	defer b.Release()
	content := make([]byte, 32<<20)
	rand.Read(content)
	if err := b.Data.WriteFile("f", content, 0o600); err != nil {
		t.Fatal(err)
	}
	free := func() int64 {
		t.Helper()
		syscall.Sync()
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		return int64(st.Bfree) * st.Bsize
	}
	before := free()
	r, err := s.Snapshot(t.Context(), b, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"one", "two", "three"} {
		to, err := s.Create(t.Context(), "c", id, record(id), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Release()
		if got, err := to.Data.ReadFile("f"); err != nil || string(got) != string(content) {
			t.Errorf("%s has other content: %v", id, err)
		}
	}
	if taken := before - free(); taken > 16<<20 {
		t.Errorf("a snapshot and three sandboxes of 32 MiB take %d MiB more", taken>>20)
	}
}

// BenchmarkSnapshot keeps and restores a sandbox of a hundred files of 100 KiB.
func BenchmarkSnapshot(b *testing.B) {
	s := openBench(b)
	makeOne(b, s, "src")
	src, err := s.Get("c", "src")
	if err != nil {
		b.Fatal(err)
	}
	defer src.Release()
	for i := range 100 {
		content := make([]byte, 100<<10)
		rand.Read(content)
		if err := src.Data.WriteFile(string(rune('A'+i)), content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	name := "copied"
	if clones(b, s.work) {
		name = "shared"
	}
	b.Run("keep/"+name, func(b *testing.B) {
		for b.Loop() {
			r, err := s.Snapshot(b.Context(), src, "", nil)
			if err == nil {
				err = s.DeleteSnapshot(b.Context(), "c", r.ID)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read and write", func(b *testing.B) { // what it is held against
		for b.Loop() {
			dir := b.TempDir()
			if err := os.CopyFS(dir, src.Data.FS()); err != nil {
				b.Fatal(err)
			}
			if err := os.RemoveAll(dir); err != nil {
				b.Fatal(err)
			}
		}
	})
}
