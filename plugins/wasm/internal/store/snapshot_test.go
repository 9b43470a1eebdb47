package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// describe returns what a copy has to keep of a tree: type, mode, time, content or
// target, and which names are one file.
func describe(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	first := map[uint64]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		s := fmt.Sprintf("%v %d", info.Mode(), info.ModTime().UnixNano())
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			st := info.Sys().(*syscall.Stat_t)
			if other, ok := first[st.Ino]; ok {
				s += " is " + other
			}
			first[st.Ino] = rel
			s += fmt.Sprintf(" %d %q", len(b), b[:min(len(b), 100)])
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			s += " -> " + target
		}
		out[rel] = s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameTree(t *testing.T, got, want map[string]string) {
	t.Helper()
	for p, s := range want {
		if got[p] != s {
			t.Errorf("%q is %s, want %s", p, got[p], s)
		}
	}
	for p := range got {
		if want[p] == "" {
			t.Errorf("%q appeared", p)
		}
	}
}

// fill makes a tree with everything that a sandbox can hold.
func fill(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	past := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	must(os.MkdirAll(dir+"/d/e/f", 0o755))
	for i, name := range []string{"a", "d/b", "d/e/f/deep", "new\nline", "bad\xff\xfeutf8", "d/" + strings.Repeat("n", 255)} {
		must(os.WriteFile(dir+"/"+name, fmt.Appendf(nil, "content %d", i), 0o644))
		must(os.Chmod(dir+"/"+name, fs.FileMode(0o600|i)))
		must(os.Chtimes(dir+"/"+name, past, past.Add(time.Duration(i)*time.Nanosecond)))
	}
	must(os.Link(dir+"/a", dir+"/d/e/a-too"))
	must(os.Symlink("d/b", dir+"/link"))
	must(os.Symlink("../../../../../../../../etc/passwd", dir+"/out"))
	must(os.Symlink("/etc", dir+"/d/out"))
	must(os.WriteFile(dir+"/empty", nil, 0o600))
	big, err := os.Create(dir + "/sparse")
	must(err)
	_, err = big.WriteAt([]byte("middle"), 8<<20)
	must(err)
	must(big.Truncate(32 << 20))
	must(big.Close())
	must(syscall.Mkfifo(dir+"/fifo", 0o600))
	must(os.Chtimes(dir+"/d/e", past, past))
}

func bigStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), Options{Quota: rootfs.Limits{Bytes: 64 << 20, Entries: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestSnapshotKeepsEverything(t *testing.T) {
	s := bigStore(t)
	b := create(t, s, "src")
	data := filepath.Join(b.path, "data")
	fill(t, data)
	want := describe(t, data)
	delete(want, "fifo") // nobody can use it, so it is not kept
	r, err := s.Snapshot(t.Context(), b, "name", map[string]string{"k": "v"})
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "name" || r.Source.Tenant != "acme" || r.Entries != int64(len(want)) || r.Bytes < 32<<20 {
		t.Errorf("record %+v", r)
	}
	// The source goes on, and goes.
	if err := os.WriteFile(data+"/a", []byte("later"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Release()
	if err := s.Delete(t.Context(), "c", "src"); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		to, err := s.Create(t.Context(), "c", fmt.Sprint("to", i), record(fmt.Sprint("to", i)), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		sameTree(t, describe(t, filepath.Join(to.path, "data")), want)
		if bytes, entries := to.Quota.Used(); bytes != r.Bytes || entries != r.Entries {
			t.Errorf("account %d, %d, want %d, %d", bytes, entries, r.Bytes, r.Entries)
		}
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(to.path, "data", "sparse"), &st); err != nil || st.Blocks*512 > 1<<20 {
			t.Errorf("the hole of the sparse file takes %d bytes: %v", st.Blocks*512, err)
		}
		// Restored sandboxes share nothing that one of them could change.
		if err := to.Data.WriteFile("a", []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		to.Release()
	}
	if err := s.DeleteSnapshot(t.Context(), "c", r.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteSnapshot(t.Context(), "c", r.ID); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := s.Create(t.Context(), "c", "late", record("late"), r.ID); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("from a deleted snapshot: %v", err)
	}
	to, err := s.Get("c", "to0")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Release()
	if got, err := to.Data.ReadFile("d/b"); err != nil || string(got) != "content 1" {
		t.Errorf("a sandbox lost its files with the snapshot: %q, %v", got, err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "trash")); len(left) != 0 {
		t.Errorf("trash holds %v", left)
	}
	noStaging(t, s)
}

func TestSnapshotIsItsTenants(t *testing.T) {
	s := bigStore(t)
	b := create(t, s, "src")
	defer b.Release()
	r, err := s.Snapshot(t.Context(), b, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	other := record("other")
	other.Metadata.Tenant = "rival"
	if _, err := s.Create(t.Context(), "c", "other", other, r.ID); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("another tenant's snapshot: %v, want as if it were not there", err)
	}
	if _, err := s.Create(t.Context(), "d", "other", record("other"), r.ID); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("another config's snapshot: %v", err)
	}
	for _, id := range []string{"..", "../c/" + r.ID, "", "nope", "a\x00"} {
		if id == "" {
			continue // no snapshot asked for
		}
		if _, err := s.Create(t.Context(), "c", "x", record("x"), id); !errors.Is(err, ErrNoSnapshot) {
			t.Errorf("snapshot %q: %v", id, err)
		}
	}
	if n, err := s.Count("d"); n != 0 || err != nil {
		t.Errorf("refused sandboxes exist: %d, %v", n, err)
	}
}

func TestSnapshotsAreBounded(t *testing.T) {
	s := bigStore(t)
	b := create(t, s, "src")
	defer b.Release()
	if err := os.WriteFile(filepath.Join(b.path, "data", "f"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := s.Snapshot(t.Context(), b, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	small := record("small")
	small.Limits.DiskBytes = 999
	if _, err := s.Create(t.Context(), "c", "small", small, r.ID); !errors.Is(err, rootfs.ErrQuota) {
		t.Errorf("a snapshot larger than the sandbox may be: %v", err)
	}
	// What others put there beyond all limits is not copied either.
	for i := range 1001 {
		if err := os.WriteFile(filepath.Join(b.path, "data", fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Snapshot(t.Context(), b, "", nil); !errors.Is(err, rootfs.ErrQuota) {
		t.Errorf("too many entries: %v", err)
	}
	deep := filepath.Join(b.path, "data")
	for range 40 {
		deep += "/d"
	}
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 1001 {
		os.Remove(filepath.Join(b.path, "data", fmt.Sprint(i)))
	}
	if _, err := s.Snapshot(t.Context(), b, "", nil); !errors.Is(err, rootfs.ErrPath) {
		t.Errorf("too deep: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Snapshot(ctx, b, "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	noStaging(t, s)
}

// A snapshot taken while a run has the sandbox waits for its end; one whose sandbox
// is deleted meanwhile is none.
func TestSnapshotWaitsForTheRun(t *testing.T) {
	s := bigStore(t)
	b := create(t, s, "src")
	defer b.Release()
	_, done, err := b.Turn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.Snapshot(ctx, b, "", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in the middle of a run: %v", err)
	}
	done()
	if _, err := s.Snapshot(t.Context(), b, "", nil); err != nil {
		t.Error(err)
	}
}

// Snapshots are deleted while sandboxes are made from them: each is whole or not
// there.
func TestRestoreAgainstDelete(t *testing.T) {
	s := bigStore(t)
	b := create(t, s, "src")
	defer b.Release()
	const files = 40
	for i := range files {
		if err := os.WriteFile(filepath.Join(b.path, "data", fmt.Sprint(i)), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made := 0
	for i := range 20 {
		r, err := s.Snapshot(t.Context(), b, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := s.DeleteSnapshot(context.Background(), "c", r.ID); err != nil {
				t.Error(err)
			}
		})
		id := fmt.Sprint("to", i)
		to, err := s.Create(t.Context(), "c", id, record(id), r.ID)
		wg.Wait()
		if errors.Is(err, ErrNoSnapshot) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		made++
		if list, err := os.ReadDir(filepath.Join(to.path, "data")); err != nil || len(list) != files {
			t.Errorf("a sandbox has %d of %d files: %v", len(list), files, err)
		}
		to.Release()
	}
	t.Logf("%d of 20 were made", made)
	if err := s.Clean(t.Context()); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(s.dir, "trash")); len(left) != 0 {
		t.Errorf("trash holds %v", left)
	}
}

// TestSnapshotRace swaps directories, files and links under a snapshot, as nothing
// but another process could. What comes out is from inside, whatever it is.
func TestSnapshotRace(t *testing.T) {
	s := bigStore(t)
	b := create(t, s, "src")
	defer b.Release()
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/f", []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(b.path, "data")
	for _, d := range []string{"p", "q"} {
		if err := os.Mkdir(data+"/"+d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(data+"/"+d+"/f", []byte("inside"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, data+"/out"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside+"/f", data+"/outfile"); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, pair := range [][2]string{{"p", "out"}, {"q/f", "outfile"}} {
				_ = os.Rename(data+"/"+pair[0], data+"/spare")
				_ = os.Rename(data+"/"+pair[1], data+"/"+pair[0])
				_ = os.Rename(data+"/"+pair[0], data+"/"+pair[1])
				_ = os.Rename(data+"/spare", data+"/"+pair[0])
			}
		}
	})
	for range 30 {
		r, err := s.Snapshot(t.Context(), b, "", nil)
		if err != nil {
			t.Errorf("snapshot: %v", err)
			break
		}
		for p, what := range describe(t, filepath.Join(s.snapshotPath("c", r.ID), "data")) {
			if info, _ := os.Lstat(filepath.Join(s.snapshotPath("c", r.ID), "data", p)); info.Mode().IsRegular() {
				if got, _ := os.ReadFile(filepath.Join(s.snapshotPath("c", r.ID), "data", p)); string(got) != "inside" {
					t.Errorf("%s: %s", p, what)
				}
			}
		}
		if err := s.DeleteSnapshot(t.Context(), "c", r.ID); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	swaps.Wait()
	if got, err := os.ReadFile(outside + "/f"); err != nil || string(got) != "secret" {
		t.Errorf("the outside is %q, %v", got, err)
	}
}
