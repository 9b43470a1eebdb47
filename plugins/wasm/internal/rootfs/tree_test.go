package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

// inode returns the inode of a file on the host.
func (w *world) inode(t *testing.T, p string) uint64 {
	t.Helper()
	info, err := os.Stat(w.inside + "/" + p)
	must(t, err)
	return info.Sys().(*syscall.Stat_t).Ino
}

func TestWritesAreSeen(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	w.put(t, "a", "text")
	w.put(t, "b", "text")
	a, b := w.inode(t, "a"), w.inode(t, "b")
	seen := w.quota.Writes()
	moment := seen.Now()
	if seen.Since(moment, a) || !seen.Since(1, a) {
		t.Error("what was written before counts as written after, or was missed")
	}
	h := w.open(t, "a", esys.O_RDWR)
	_, e := h.Read(make([]byte, 2))
	ok(t, e)
	if seen.Since(moment, a) {
		t.Error("reading counts as writing")
	}
	_, e = h.Write([]byte("x"))
	ok(t, e)
	if !seen.Since(moment, a) || seen.Since(moment, b) {
		t.Error("a write of an open file was missed, or another file's taken for it")
	}
	moment = seen.Now()
	if seen.Since(moment, a) {
		t.Error("an old write counts as new")
	}
	ok(t, h.Truncate(1))
	ok(t, h.Close())
	if !seen.Since(moment, a) {
		t.Error("a truncation was forgotten when the file was closed")
	}
	// More files than are remembered: then anything may have been written.
	for i := range maxWritten + 2 {
		w.quota.written.put(uint64(1<<40+i), 1)
	}
	if moment := seen.Now(); seen.Since(moment, b) {
		t.Error("a new moment is not believed")
	}
	if !seen.Since(1, b) {
		t.Error("what was forgotten counts as unwritten")
	}
}

func TestGenerationMissesNothing(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	w.put(t, "f", "text")
	ok(t, w.fs.Mkdir("d", 0o755))
	last := w.quota.Generation()
	for _, step := range []struct {
		name string
		do   func() esys.Errno
	}{
		{"create", func() esys.Errno { w.put(t, "g", ""); return 0 }},
		{"write", func() esys.Errno { w.put(t, "g", "x"); return 0 }},
		{"mkdir", func() esys.Errno { return w.fs.Mkdir("e", 0o755) }},
		{"rename", func() esys.Errno { return w.fs.Rename("g", "h") }},
		{"link", func() esys.Errno { return w.fs.Link("h", "i") }},
		{"symlink", func() esys.Errno { return w.fs.Symlink("h", "s") }},
		{"unlink", func() esys.Errno { return w.fs.Unlink("i") }},
		{"rmdir", func() esys.Errno { return w.fs.Rmdir("e") }},
		{"chmod", func() esys.Errno { return w.fs.Chmod("h", 0o640) }},
		{"utimens", func() esys.Errno { return w.fs.Utimens("h", 1, 1) }},
		{"futimens", func() esys.Errno { return w.open(t, "h", esys.O_RDONLY).Utimens(2, 2) }},
		{"truncate", func() esys.Errno { return w.open(t, "h", esys.O_RDWR).Truncate(9) }},
		{"by the host", func() esys.Errno { must(t, NewTree(w.root, w.quota).MakeDirs("x/y")); return 0 }},
		{"removed by the host", func() esys.Errno { must(t, NewTree(w.root, w.quota).RemoveAll(t.Context(), "x")); return 0 }},
	} {
		ok(t, step.do())
		now := w.quota.Generation()
		if now == last {
			t.Errorf("%s was missed", step.name)
		}
		last = now
	}
	if _, e := w.fs.Stat("h"); e != 0 || w.quota.Generation() != last {
		t.Error("looking counts as a change")
	}
	if _, e := w.read("h"); e != 0 || w.quota.Generation() != last {
		t.Error("reading counts as a change")
	}
}

func TestLowerLimits(t *testing.T) {
	w := newWorld(t, Limits{Bytes: 100, Entries: 10}, Options{})
	w.put(t, "f", "12345")
	restore := w.quota.Lower(10, 2)
	h := w.open(t, "f", esys.O_RDWR)
	_, e := h.Pwrite(make([]byte, 11), 0)
	want(t, e, ENOSPC)
	_, e = h.Pwrite(make([]byte, 10), 0)
	ok(t, e)
	w.put(t, "g", "")
	want(t, w.fs.Mkdir("d", 0o755), ENOSPC)
	restore()
	ok(t, w.fs.Mkdir("d", 0o755))
	_, e = h.Pwrite(make([]byte, 100), 0)
	ok(t, e)
	defer w.quota.Lower(1000, 1000)() // never more than the limits
	_, e = h.Pwrite(make([]byte, 101), 0)
	want(t, e, ENOSPC)
}

func TestDoneEndsOperations(t *testing.T) {
	done := make(chan struct{})
	w := newWorld(t, Limits{}, Options{Done: done})
	h := w.open(t, "f", rw)
	_, e := h.Write([]byte("text"))
	ok(t, e)
	close(done)
	_, e = h.Write([]byte("more"))
	want(t, e, esys.EINTR)
	_, e = h.Pread(make([]byte, 4), 0)
	want(t, e, esys.EINTR)
	want(t, h.Truncate(0), esys.EINTR)
	_, e = w.fs.OpenFile("f", esys.O_RDONLY, 0)
	want(t, e, esys.EINTR)
	ok(t, h.Close())
	w.used(t, 4, 1)
}

// A tree that a guest fills is emptied by the host at the same time; the account is
// exact whoever wins.
func TestRemoveAllAgainstAGuest(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	tree := NewTree(w.root, w.quota)
	stop := make(chan struct{})
	var guest sync.WaitGroup
	guest.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			dir := fmt.Sprintf("top/d%d", i%4)
			w.fs.Mkdir("top", 0o755)
			w.fs.Mkdir(dir, 0o755)
			if f, e := w.fs.OpenFile(dir+"/f", rw, 0o644); e == 0 {
				f.Write(make([]byte, i%100))
				w.fs.Link(dir+"/f", dir+"/g")
				f.Close()
			}
			w.fs.Symlink("f", dir+"/s")
			w.fs.Rename(dir, "top/moved")
		}
	})
	for range 100 {
		if err := tree.RemoveAll(t.Context(), "top"); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
			t.Error(err)
			break
		}
	}
	close(stop)
	guest.Wait()
	must(t, tree.RemoveAll(t.Context(), "top"))
	w.used(t, 0, 0)
	if left, _ := os.ReadDir(w.inside); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// Trees that nobody could make through this package are removed too, without a
// descriptor for each level.
func TestRemoveAllOfAnything(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	dir := w.inside + "/deep"
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.MkdirAll(dir+strings.Repeat("/d", 200), 0o700))
	must(t, os.Symlink(w.secret, dir+"/out"))
	must(t, syscall.Mkfifo(dir+"/fifo", 0o600))
	for i := range 2*removeBatch + 1 {
		must(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, i), nil, 0o600))
	}
	must(t, w.quota.Measure(t.Context(), w.root))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewTree(w.root, w.quota).RemoveAll(ended, "deep"); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	must(t, NewTree(w.root, w.quota).RemoveAll(t.Context(), "deep"))
	w.used(t, 0, 0)
	if got, err := os.ReadFile(w.secret); err != nil || string(got) != secretText {
		t.Errorf("the secret is %q, %v", got, err)
	}
}
