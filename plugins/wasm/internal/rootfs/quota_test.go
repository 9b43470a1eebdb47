package rootfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

const rw = esys.O_RDWR | esys.O_CREAT

func TestGrowthIsChargedOnce(t *testing.T) {
	w := newWorld(t, Limits{Bytes: 100}, Options{})
	other := New(w.root, w.quota, Options{}) // a second run in the same session
	a := w.open(t, "f", rw)
	b, e := other.OpenFile("f", rw, 0o644)
	ok(t, e)
	defer b.Close()
	for _, f := range []esys.File{a, b} {
		n, e := f.Write(make([]byte, 60))
		if n != 60 || e != 0 {
			t.Fatalf("write: %d, %v", n, e)
		}
	}
	w.used(t, 60, 1)
	_, e = a.Pwrite(make([]byte, 10), 91)
	want(t, e, ENOSPC)
	_, e = a.Pwrite(make([]byte, 10), 90)
	ok(t, e)
	w.used(t, 100, 1)
	_, e = b.Pwrite(make([]byte, 10), 90)
	ok(t, e)
	ok(t, b.Truncate(20))
	w.used(t, 20, 1)
	_, e = a.Pwrite(make([]byte, 30), 0)
	ok(t, e)
	w.used(t, 30, 1)
}

func TestAppend(t *testing.T) {
	w := newWorld(t, Limits{Bytes: 10}, Options{})
	a := w.open(t, "f", rw|esys.O_APPEND)
	b := w.open(t, "f", rw|esys.O_APPEND)
	for i, f := range []esys.File{a, b, a} {
		_, e := f.Write([]byte(fmt.Sprint(i)))
		ok(t, e)
	}
	if got, _ := w.read("f"); got != "012" {
		t.Errorf("file has %q", got)
	}
	_, e := b.Write(make([]byte, 8))
	want(t, e, ENOSPC)
	w.used(t, 3, 1)
}

func TestSparseGrowthIsCharged(t *testing.T) {
	w := newWorld(t, Limits{Bytes: 1 << 20}, Options{})
	f := w.open(t, "f", rw)
	want(t, f.Truncate(1<<40), ENOSPC)
	_, e := f.Pwrite([]byte("x"), 1<<40)
	want(t, e, ENOSPC)
	_, e = f.Seek(1<<40, io.SeekStart)
	ok(t, e)
	_, e = f.Write([]byte("x"))
	want(t, e, ENOSPC)
	_, e = f.Pwrite([]byte("x"), 1<<63-1)
	want(t, e, ENOSPC)
	want(t, f.Truncate(-1), esys.EINVAL)
	w.used(t, 0, 1)
	ok(t, f.Truncate(1<<20))
	w.used(t, 1<<20, 1)
	if info, _ := os.Stat(w.inside + "/f"); info.Size() != 1<<20 {
		t.Errorf("size %d", info.Size())
	}
}

func TestTruncatingOpenGivesBack(t *testing.T) {
	w := newWorld(t, Limits{Bytes: 10}, Options{})
	w.put(t, "f", "0123456789")
	w.put(t, "f", "01234")
	w.used(t, 5, 1)
	_, e := w.fs.OpenFile("f", esys.O_RDONLY|esys.O_TRUNC, 0)
	want(t, e, esys.EINVAL)
}

func TestRemovingGivesBack(t *testing.T) {
	w := newWorld(t, Limits{Bytes: 10}, Options{})
	w.put(t, "f", "0123456789")
	ok(t, w.fs.Link("f", "g"))
	w.used(t, 10, 2)
	ok(t, w.fs.Unlink("f"))
	w.used(t, 10, 1) // g keeps the bytes
	h := w.open(t, "g", esys.O_RDWR)
	ok(t, w.fs.Unlink("g"))
	w.used(t, 10, 0) // and now the handle does
	n, e := h.Pwrite([]byte("x"), 10)
	if n != 0 || e != ENOSPC {
		t.Fatalf("write to a removed file: %d, %v", n, e)
	}
	ok(t, h.Close())
	w.used(t, 0, 0)
	ok(t, h.Close()) // twice is harmless
	w.used(t, 0, 0)
}

func TestRenameGivesBackWhatItReplaces(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	w.put(t, "f", "12345")
	w.put(t, "g", "123")
	ok(t, w.fs.Rename("f", "g"))
	w.used(t, 5, 1)
	ok(t, w.fs.Link("g", "h"))
	ok(t, w.fs.Rename("g", "h")) // same file: nothing happens
	w.used(t, 5, 2)
	ok(t, w.fs.Mkdir("d", 0o755))
	ok(t, w.fs.Mkdir("e", 0o755))
	w.used(t, 5, 4)
	ok(t, w.fs.Rename("d", "e"))
	w.used(t, 5, 3)
	want(t, w.fs.Rename("g", "e"), esys.EISDIR)
	want(t, w.fs.Rename("e", "g"), esys.ENOTDIR)
	want(t, w.fs.Rename("e", "."), esys.EINVAL)
	ok(t, w.fs.Rmdir("e"))
	w.used(t, 5, 2)
}

func TestEntryCap(t *testing.T) {
	w := newWorld(t, Limits{Entries: 3}, Options{})
	w.put(t, "a", "")
	ok(t, w.fs.Mkdir("b", 0o755))
	ok(t, w.fs.Symlink("a", "c"))
	_, e := w.fs.OpenFile("d", rw, 0o644)
	want(t, e, ENOSPC)
	want(t, w.fs.Mkdir("d", 0o755), ENOSPC)
	want(t, w.fs.Symlink("a", "d"), ENOSPC)
	want(t, w.fs.Link("a", "d"), ENOSPC)
	// What fails for another reason costs nothing.
	ok(t, w.fs.Unlink("c"))
	want(t, w.fs.Mkdir("b", 0o755), esys.EEXIST)
	want(t, w.fs.Symlink("a", "b"), esys.EEXIST)
	want(t, w.fs.Mkdir("no/dir", 0o755), esys.ENOENT)
	_, e = w.fs.OpenFile("a", rw|esys.O_EXCL, 0o644)
	want(t, e, esys.EEXIST)
	_, e = w.fs.OpenFile("no/file", rw, 0o644)
	want(t, e, esys.ENOENT)
	w.used(t, 0, 2)
}

func TestCreateThroughDanglingLink(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	ok(t, w.fs.Symlink("target", "x"))
	_, e := w.fs.OpenFile("x", rw|esys.O_EXCL, 0o644)
	want(t, e, esys.EEXIST)
	w.put(t, "x", "text")
	if got, e := w.read("target"); e != 0 || got != "text" {
		t.Errorf("target has %q, %v", got, e)
	}
	w.used(t, 4, 2)
}

func TestDepthAndLength(t *testing.T) {
	w := newWorld(t, Limits{Depth: 4, PathBytes: 64}, Options{})
	for _, p := range []string{"a", "a/b", "a/b/c"} {
		ok(t, w.fs.Mkdir(p, 0o755))
	}
	w.put(t, "a/b/c/f", "x")
	want(t, w.fs.Mkdir("a/b/c/d/e", 0o755), esys.ENAMETOOLONG)
	_, e := w.fs.Stat(strings.Repeat("x", 65))
	want(t, e, esys.ENAMETOOLONG)
	// A link does not help to go deeper.
	ok(t, w.fs.Symlink("a/b/c", "s"))
	ok(t, w.fs.Mkdir("s/d", 0o755))
	want(t, w.fs.Mkdir("s/d/e", 0o755), esys.ENAMETOOLONG)
	// Nor does moving a tree below another.
	ok(t, w.fs.Mkdir("t", 0o755))
	ok(t, w.fs.Mkdir("t/u", 0o755))
	want(t, w.fs.Rename("t", "a/b/c/t"), esys.ENAMETOOLONG)
	ok(t, w.fs.Rename("t", "a/b/t"))
	// Nor to make paths longer than the limit by renaming their top.
	want(t, w.fs.Rename("a", strings.Repeat("a", 60)), esys.ENAMETOOLONG)
	ok(t, w.fs.Rename("a", "aa"))
	_, e = w.fs.Stat("nul\x00byte")
	want(t, e, esys.EINVAL)
}

func TestOpenFileCap(t *testing.T) {
	var seen []uint16
	w := newWorld(t, Limits{OpenFiles: 2}, Options{OnErrno: func(n uint16) { seen = append(seen, n) }})
	a := w.open(t, "a", rw)
	w.open(t, ".", esys.O_RDONLY|esys.O_DIRECTORY)
	_, e := w.fs.OpenFile("c", rw, 0o644)
	want(t, e, EMFILE)
	if len(seen) != 1 || seen[0] != 33 {
		t.Errorf("OnErrno saw %v, want 33 (EMFILE of WASI)", seen)
	}
	ok(t, a.Close())
	w.open(t, "a", rw)
	w.used(t, 0, 1)
}

func TestMeasure(t *testing.T) {
	w := newWorld(t, Limits{Bytes: 100}, Options{})
	must(t, os.MkdirAll(w.inside+"/d/e", 0o755))
	must(t, os.WriteFile(w.inside+"/d/e/f", make([]byte, 30), 0o644))
	must(t, os.Link(w.inside+"/d/e/f", w.inside+"/g"))
	must(t, os.Symlink(w.secret, w.inside+"/s"))
	must(t, w.quota.Measure(context.Background(), w.root))
	w.used(t, 30, 5)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.quota.Measure(ctx, w.root); !errors.Is(err, context.Canceled) {
		t.Errorf("measure with a cancelled context: %v", err)
	}
	// Removing more than was counted leaves zero, not a credit.
	fresh := New(w.root, NewQuota(Limits{}), Options{})
	ok(t, fresh.Unlink("d/e/f"))
	if b, n := fresh.quota.Used(); b != 0 || n != 0 {
		t.Errorf("account has %d bytes and %d entries", b, n)
	}
}

func TestChargeIsAllOrNothing(t *testing.T) {
	q := NewQuota(Limits{Bytes: 10, Entries: 1})
	must(t, q.Charge(5, 1))
	for _, c := range [][2]int64{{6, 0}, {1, 1}, {1 << 62, 0}} {
		if err := q.Charge(c[0], c[1]); !errors.Is(err, ErrQuota) {
			t.Errorf("charge %v: %v", c, err)
		}
	}
	if b, n := q.Used(); b != 5 || n != 1 {
		t.Errorf("account has %d bytes and %d entries", b, n)
	}
}

// TestAccountMatchesDisk hammers one directory from several file systems that
// share a quota and compares the account with a new measurement.
func TestAccountMatchesDisk(t *testing.T) {
	const workers, rounds = 8, 200
	w := newWorld(t, Limits{Bytes: 4000, Entries: 20}, Options{})
	var wg sync.WaitGroup
	for g := range workers {
		wg.Go(func() {
			fs := New(w.root, w.quota, Options{})
			for i := range rounds {
				name := fmt.Sprint("f", (g+i)%5)
				if f, e := fs.OpenFile(name, rw, 0o644); e == 0 {
					f.Pwrite(make([]byte, 100), int64(i%7)*50)
					if i%3 == 0 {
						f.Truncate(int64(i % 200))
					}
					if i%4 == 0 {
						fs.Unlink(name)
					}
					f.Close()
				}
				fs.Link(name, fmt.Sprint("l", i%3))
				fs.Rename(name, fmt.Sprint("f", (g+i+1)%5))
				fs.Mkdir(fmt.Sprint("d", i%2), 0o755)
				fs.Rmdir(fmt.Sprint("d", i%2))
				fs.Unlink(fmt.Sprint("l", (i+1)%3))
			}
		})
	}
	wg.Wait()
	bytes, entries := w.quota.Used()
	must(t, w.quota.Measure(context.Background(), w.root))
	w.used(t, bytes, entries)
	if len(w.quota.open) != 0 {
		t.Errorf("%d accounts of open files are left", len(w.quota.open))
	}
}
