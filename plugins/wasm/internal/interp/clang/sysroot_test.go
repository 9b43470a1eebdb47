package clang

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"strings"
	"testing"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

// archive packs files, each with its content.
func archive(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range headers {
		content := "content of " + h.Name
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg && h.Size == int64(len(content)) {
			if _, err := io.WriteString(w, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = w.Flush() // a content that is too short is what some tests want
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }

func TestUnpack(t *testing.T) {
	files, err := unpack(archive(t, tar.Header{Typeflag: tar.TypeDir, Name: "sys/"}, file("sys/include/a.h"), file("sys/lib/b")))
	if err != nil || len(files) != 2 || string(files["include/a.h"]) != "content of sys/include/a.h" {
		t.Fatalf("%v, %v", files, err)
	}
	many := make([]tar.Header, maxArchiveFiles+1)
	for i := range many {
		many[i] = file("sys/" + strings.Repeat("x", i%100+1) + "/" + strings.Repeat("y", i/100+1))
	}
	good := archive(t, file("sys/a"))
	for name, bad := range map[string][]byte{
		"nothing":      nil,
		"no gzip":      []byte("text"),
		"cut off":      good[:len(good)-30],
		"link":         archive(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/a", Linkname: "/etc/passwd"}),
		"hard link":    archive(t, tar.Header{Typeflag: tar.TypeLink, Name: "sys/a", Linkname: "sys/b"}),
		"device":       archive(t, tar.Header{Typeflag: tar.TypeChar, Name: "sys/a"}),
		"absolute":     archive(t, file("/sys/a")),
		"parent":       archive(t, file("sys/../a")),
		"elsewhere":    archive(t, file("etc/a")),
		"top":          archive(t, file("sys")),
		"empty name":   archive(t, file("sys//a")),
		"twice":        archive(t, file("sys/a"), file("sys/a")),
		"directory up": archive(t, tar.Header{Typeflag: tar.TypeDir, Name: "sys/../../x/"}),
		"too large":    archive(t, tar.Header{Typeflag: tar.TypeReg, Name: "sys/a", Size: maxArchiveBytes + 1}),
		"too many":     archive(t, many...),
	} {
		if files, err := unpack(bad); err == nil {
			t.Errorf("%s: %d files", name, len(files))
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(archive(f, file("sys/a"), file("sys/b/c")))
	f.Add(archive(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "sys/a", Linkname: "x"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := unpack(b)
		if err != nil {
			return
		}
		total := 0
		for name, content := range files {
			if !fs.ValidPath(name) {
				t.Errorf("path %q", name)
			}
			total += len(content)
		}
		if total > maxArchiveBytes {
			t.Errorf("%d bytes", total)
		}
		newTree(1, files)
	})
}

func TestTree(t *testing.T) {
	tr := newTree(7, map[string][]byte{"a/b/c": []byte("content"), "a/d": nil})
	numbers := map[uint64]bool{}
	for p, dir := range map[string]bool{".": true, "a": true, "/a/b/": true, "a/b/c": false, "a/../a/d": false} {
		st, errno := tr.Stat(p)
		if errno != 0 || st.Mode.IsDir() != dir || st.Dev != 7 || st.Ino == 0 || numbers[st.Ino] {
			t.Errorf("%s: %+v, %v", p, st, errno)
		}
		numbers[st.Ino] = true
	}
	for _, p := range []string{"b", "a/b/c/d", "../a2", "a/x"} {
		if _, errno := tr.Stat(p); errno != esys.ENOENT {
			t.Errorf("%s: %v", p, errno)
		}
	}
	for _, flag := range []esys.Oflag{esys.O_WRONLY, esys.O_RDWR, esys.O_CREAT, esys.O_TRUNC} {
		if _, errno := tr.OpenFile("a/d", flag, 0); errno != esys.EROFS {
			t.Errorf("open with %x: %v", flag, errno)
		}
	}
	if errno := tr.Unlink("a/d"); errno == 0 {
		t.Error("a file was deleted")
	}
	f, errno := tr.OpenFile("a/b/c", esys.O_RDONLY, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	b := make([]byte, 4)
	if n, _ := f.Read(b); n != 4 || string(b) != "cont" {
		t.Errorf("read %q", b[:n])
	}
	if at, _ := f.Seek(-2, io.SeekEnd); at != 5 {
		t.Errorf("at %d", at)
	}
	if n, _ := f.Read(b); n != 2 || string(b[:n]) != "nt" {
		t.Errorf("read %q", b[:n])
	}
	if _, errno := f.Seek(-8, io.SeekCurrent); errno != esys.EINVAL {
		t.Errorf("in front of the file: %v", errno)
	}
	if n, errno := f.Pread(b, 100); n != 0 || errno != 0 {
		t.Errorf("behind the file: %d, %v", n, errno)
	}
	d, errno := tr.OpenFile("a", esys.O_DIRECTORY, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	if names, _ := d.Readdir(1); len(names) != 1 || names[0].Name != "b" || !names[0].IsDir() {
		t.Errorf("%+v", names)
	}
	if names, _ := d.Readdir(-1); len(names) != 1 || names[0].Name != "d" {
		t.Errorf("%+v", names)
	}
}

func TestSink(t *testing.T) {
	s := &sink{name: "out", max: 5}
	if _, errno := s.OpenFile("other", esys.O_WRONLY|esys.O_CREAT, 0); errno != esys.ENOENT {
		t.Errorf("another file: %v", errno)
	}
	f, errno := s.OpenFile("out", esys.O_WRONLY, 0)
	if errno != 0 {
		t.Fatal(errno)
	}
	if n, errno := f.Write([]byte("12345")); n != 5 || errno != 0 || s.full {
		t.Errorf("%d, %v, %t", n, errno, s.full)
	}
	if _, errno := f.Write([]byte("6")); errno != esys.EIO || !s.full || string(s.content) != "12345" {
		t.Errorf("%v, %t, %q", errno, s.full, s.content)
	}
}
