package rootfs

import (
	"io"
	"os"
	"sort"
	"strings"
	"testing"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

func TestReadWriteSeek(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	f := w.open(t, "f", rw)
	_, e := f.Write([]byte("hello world"))
	ok(t, e)
	pos, e := f.Seek(-5, io.SeekEnd)
	ok(t, e)
	if pos != 6 {
		t.Errorf("position %d", pos)
	}
	buf := make([]byte, 10)
	n, e := f.Read(buf)
	ok(t, e)
	if string(buf[:n]) != "world" {
		t.Errorf("read %q", buf[:n])
	}
	if n, e = f.Read(buf); n != 0 || e != 0 {
		t.Errorf("read at the end: %d, %v", n, e)
	}
	if n, _ = f.Pread(buf[:5], 0); string(buf[:n]) != "hello" {
		t.Errorf("pread %q", buf[:n])
	}
	for _, bad := range []struct {
		off    int64
		whence int
	}{{-1, io.SeekStart}, {-100, io.SeekEnd}, {1<<63 - 1, io.SeekEnd}, {0, 9}} {
		_, e = f.Seek(bad.off, bad.whence)
		want(t, e, esys.EINVAL)
	}
	_, e = f.Pread(buf, -1)
	want(t, e, esys.EINVAL)
	_, e = f.Pwrite(buf, -1)
	want(t, e, esys.EINVAL)
}

func TestAccessModesAreKept(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	w.put(t, "f", "text")
	r := w.open(t, "f", esys.O_RDONLY)
	_, e := r.Write([]byte("x"))
	want(t, e, esys.EBADF)
	want(t, r.Truncate(0), esys.EBADF)
	o := w.open(t, "f", esys.O_WRONLY)
	_, e = o.Read(make([]byte, 1))
	want(t, e, esys.EBADF)
	_, e = w.fs.OpenFile(".", esys.O_RDWR, 0)
	want(t, e, esys.EISDIR)
	d := w.open(t, ".", esys.O_RDONLY)
	_, e = d.Read(make([]byte, 1))
	want(t, e, esys.EISDIR)
	_, e = d.Write([]byte("x"))
	want(t, e, esys.EISDIR)
	_, e = w.fs.OpenFile("f", esys.O_RDONLY|esys.O_DIRECTORY, 0)
	want(t, e, esys.ENOTDIR)
	want(t, w.fs.Rmdir("f"), esys.ENOTDIR)
	ok(t, w.fs.Mkdir("d", 0o755))
	want(t, w.fs.Unlink("d"), esys.EISDIR)
	w.put(t, "d/f", "")
	want(t, w.fs.Rmdir("d"), esys.ENOTEMPTY)
}

func TestReaddir(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	w.put(t, "f", "")
	w.put(t, "tab\tnewline\nname", "")
	ok(t, w.fs.Mkdir("d", 0o755))
	must(t, os.Symlink(w.secret, w.inside+"/s"))
	d := w.open(t, "/", esys.O_RDONLY|esys.O_DIRECTORY)
	for range 2 {
		var names []string
		for {
			es, e := d.Readdir(2)
			ok(t, e)
			if len(es) == 0 {
				break
			}
			for _, x := range es {
				if x.Ino == 0 {
					t.Errorf("%s has no inode number", x.Name)
				}
				if x.Name == "s" && x.Type&os.ModeSymlink == 0 {
					t.Errorf("the link is listed as %v", x.Type)
				}
				names = append(names, x.Name)
			}
		}
		sort.Strings(names)
		if got := strings.Join(names, ","); got != "d,f,s,tab\tnewline\nname" {
			t.Errorf("listing %q", got)
		}
		_, e := d.Seek(0, io.SeekStart)
		ok(t, e)
	}
}

func TestTimesAndModes(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	w.put(t, "f", "")
	f := w.open(t, "f", esys.O_RDWR)
	ok(t, w.fs.Utimens("f", 1_000_000_001, 2_000_000_002))
	ok(t, f.Utimens(esys.UTIME_OMIT, 3_000_000_000))
	st, e := w.fs.Stat("f")
	ok(t, e)
	if st.Atim != 1_000_000_001 || st.Mtim != 3_000_000_000 {
		t.Errorf("times %d, %d", st.Atim, st.Mtim)
	}
	ok(t, w.fs.Utimens("f", 5, esys.UTIME_OMIT))
	if st, _ = w.fs.Stat("f"); st.Atim != 5 || st.Mtim != 3_000_000_000 {
		t.Errorf("times %d, %d", st.Atim, st.Mtim)
	}
	ok(t, w.fs.Chmod("f", os.ModeSetuid|0o011))
	info, err := os.Stat(w.inside + "/f")
	must(t, err)
	if info.Mode() != 0o611 {
		t.Errorf("mode %v, want the owner's access kept and no set-uid bit", info.Mode())
	}
}
