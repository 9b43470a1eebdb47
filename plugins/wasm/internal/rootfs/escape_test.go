package rootfs

import (
	"net"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	esys "github.com/tetratelabs/wazero/experimental/sys"
)

// TestEscapes tries every operation through every kind of way out. The links
// are made on the host, so that nothing depends on what Symlink refuses.
func TestEscapes(t *testing.T) {
	ways := []struct {
		name  string
		setup func(t *testing.T, w *world)
		path  string // leads to the secret
		dir   string // leads to the directory of the secret
	}{
		{"dotdot", nil, "../secret", ".."},
		{"dotdot after a directory", nil, "d/../../secret", "d/../.."},
		{"dotdot below the mount root", nil, "/../secret", "/.."},
		{"relative link to the file", link("../secret", "x"), "x", ""},
		{"absolute link to the file", func(t *testing.T, w *world) { must(t, os.Symlink(w.secret, w.inside+"/x")) }, "x", ""},
		{"relative link to the directory", link("..", "x"), "x/secret", "x"},
		{"absolute link to the directory", func(t *testing.T, w *world) { must(t, os.Symlink(path.Dir(w.secret), w.inside+"/x")) }, "x/secret", "x"},
		{"link in a subdirectory", link("../..", "d/x"), "d/x/secret", "d/x"},
		{"link to a link", func(t *testing.T, w *world) { link("..", "x")(t, w); link("x", "y")(t, w) }, "y/secret", "y"},
		{"link through a link", func(t *testing.T, w *world) { link("d", "e")(t, w); link("../..", "d/x")(t, w) }, "e/x/secret", "e/x"},
		{"link that leaves and comes back", link("../root/../secret", "x"), "x", ""},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			w := newWorld(t, Limits{}, Options{})
			must(t, os.Mkdir(w.inside+"/d", 0o755))
			if way.setup != nil {
				way.setup(t, w)
			}
			w.put(t, "mine", "mine")
			for _, flag := range []esys.Oflag{
				esys.O_RDONLY, esys.O_WRONLY, esys.O_RDWR, esys.O_WRONLY | esys.O_TRUNC, esys.O_WRONLY | esys.O_CREAT,
				esys.O_RDWR | esys.O_CREAT | esys.O_TRUNC, esys.O_RDONLY | esys.O_CREAT, esys.O_WRONLY | esys.O_APPEND,
			} {
				if f, e := w.fs.OpenFile(way.path, flag, 0o644); e == 0 {
					f.Close()
					t.Errorf("open with flags %#x succeeded", flag)
				}
			}
			refuse := func(op string, e esys.Errno) {
				t.Helper()
				if e == 0 {
					t.Errorf("%s succeeded", op)
				}
			}
			_, e := w.fs.Stat(way.path)
			refuse("stat", e)
			refuse("chmod", w.fs.Chmod(way.path, 0o777))
			refuse("utimens", w.fs.Utimens(way.path, 1, 1))
			if way.dir != "" {
				// Through a directory outside, nothing at all may work.
				f, e := w.fs.OpenFile(way.dir, esys.O_RDONLY|esys.O_DIRECTORY, 0)
				if e == 0 {
					f.Close()
				}
				refuse("open of the directory", e)
				_, e = w.fs.Lstat(way.path)
				refuse("lstat", e)
				_, e = w.fs.Readlink(way.path)
				refuse("readlink", e)
				refuse("rename out", w.fs.Rename("mine", way.dir+"/stolen"))
				refuse("rename in", w.fs.Rename(way.path, "stolen"))
				refuse("link out", w.fs.Link("mine", way.dir+"/stolen"))
				refuse("link in", w.fs.Link(way.path, "stolen"))
				refuse("symlink out", w.fs.Symlink("mine", way.dir+"/stolen"))
				refuse("unlink", w.fs.Unlink(way.path))
				refuse("mkdir", w.fs.Mkdir(way.dir+"/stolen", 0o755))
				refuse("rmdir", w.fs.Rmdir(way.dir+"/root"))
				f, e = w.fs.OpenFile(way.dir+"/stolen", esys.O_WRONLY|esys.O_CREAT, 0o644)
				if e == 0 {
					f.Close()
				}
				refuse("create", e)
			}
			got, err := os.ReadFile(w.secret)
			must(t, err)
			info, err := os.Stat(w.secret)
			must(t, err)
			if string(got) != secretText || info.Mode().Perm() != 0o600 || info.ModTime().Unix() == 0 {
				t.Errorf("the secret changed: %q, %v", got, info.Mode())
			}
			names, err := os.ReadDir(path.Dir(w.secret))
			must(t, err)
			if len(names) != 2 {
				t.Errorf("entries appeared outside: %v", names)
			}
		})
	}
}

func link(target, name string) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		must(t, os.Symlink(target, w.inside+"/"+name))
	}
}

func TestEscapeErrnoIsPermission(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	must(t, os.Symlink("../secret", w.inside+"/x"))
	_, e := w.read("x")
	want(t, e, esys.EPERM)
	_, e = w.read("../secret")
	want(t, e, esys.EPERM)
}

func TestSymlinkTargets(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	ok(t, w.fs.Mkdir("d", 0o755))
	w.put(t, "f", "text")
	for _, target := range []string{"/etc/passwd", "/", "..", "../secret", "../../../../etc/passwd", "d/../../secret"} {
		want(t, w.fs.Symlink(target, "x"), esys.EPERM)
	}
	want(t, w.fs.Symlink("", "x"), esys.ENOENT)
	ok(t, w.fs.Symlink("f", "a"))
	ok(t, w.fs.Symlink("../f", "d/b"))
	for _, p := range []string{"a", "d/b"} {
		if got, e := w.read(p); e != 0 || got != "text" {
			t.Errorf("%s through its link: %q, %v", p, got, e)
		}
	}
	if got, e := w.fs.Readlink("d/b"); e != 0 || got != "../f" {
		t.Errorf("readlink: %q, %v", got, e)
	}
}

func TestMovedLinkStaysConfined(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	ok(t, w.fs.Mkdir("d", 0o755))
	ok(t, w.fs.Symlink("../secret", "d/x")) // points to root/secret
	ok(t, w.fs.Rename("d/x", "x"))          // now spelled out of the root
	_, e := w.read("x")
	want(t, e, esys.EPERM)
	want(t, w.fs.Chmod("x", 0o777), esys.EPERM)
}

func TestSpecialFilesAreRefused(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	must(t, syscall.Mkfifo(w.inside+"/fifo", 0o666))
	l, err := net.Listen("unix", w.inside+"/sock")
	must(t, err)
	defer l.Close()
	names := []string{"fifo", "sock"}
	if syscall.Mknod(w.inside+"/null", syscall.S_IFCHR|0o666, 1<<8|3) == nil { // needs root
		names = append(names, "null")
	}
	must(t, os.Symlink("fifo", w.inside+"/to-fifo"))
	names = append(names, "to-fifo")
	for _, name := range names {
		for _, flag := range []esys.Oflag{esys.O_RDONLY, esys.O_WRONLY, esys.O_RDWR, esys.O_RDWR | esys.O_CREAT} {
			f, e := w.fs.OpenFile(name, flag, 0o644)
			if e == 0 {
				f.Close()
			}
			if e != esys.EACCES {
				t.Errorf("open %s with %#x: %v, want %v", name, flag, e, esys.EACCES)
			}
		}
		want(t, w.fs.Link(name, "linked"), esys.EPERM)
	}
	if n := w.fs.files.Load(); n != 0 {
		t.Errorf("%d files are counted as open", n)
	}
}

func TestReadOnly(t *testing.T) {
	w := newWorld(t, Limits{}, Options{ReadOnly: true})
	must(t, os.WriteFile(w.inside+"/f", []byte("text"), 0o644))
	must(t, os.Mkdir(w.inside+"/d", 0o755))
	if got, e := w.read("f"); e != 0 || got != "text" {
		t.Fatalf("read: %q, %v", got, e)
	}
	for _, flag := range []esys.Oflag{
		esys.O_WRONLY, esys.O_RDWR, esys.O_RDONLY | esys.O_TRUNC, esys.O_WRONLY | esys.O_CREAT,
	} {
		_, e := w.fs.OpenFile("f", flag, 0o644)
		want(t, e, esys.EROFS)
	}
	_, e := w.fs.OpenFile("new", esys.O_RDONLY|esys.O_CREAT, 0o644)
	want(t, e, esys.EROFS)
	want(t, w.fs.Mkdir("n", 0o755), esys.EROFS)
	want(t, w.fs.Rmdir("d"), esys.EROFS)
	want(t, w.fs.Unlink("f"), esys.EROFS)
	want(t, w.fs.Rename("f", "g"), esys.EROFS)
	want(t, w.fs.Link("f", "g"), esys.EROFS)
	want(t, w.fs.Symlink("f", "g"), esys.EROFS)
	want(t, w.fs.Chmod("f", 0o777), esys.EROFS)
	want(t, w.fs.Utimens("f", 1, 1), esys.EROFS)
	want(t, w.open(t, "f", esys.O_RDONLY).Utimens(1, 1), esys.EROFS)
}

// TestSwapRace swaps a directory for a link out of the root, again and again,
// while every operation goes through it. Nothing outside may be seen or made.
func TestSwapRace(t *testing.T) {
	w := newWorld(t, Limits{}, Options{})
	outside := path.Dir(w.secret) + "/outside"
	must(t, os.Mkdir(outside, 0o755))
	must(t, os.WriteFile(outside+"/f", []byte(secretText), 0o644))
	must(t, os.Mkdir(w.inside+"/real", 0o755))
	must(t, os.WriteFile(w.inside+"/real/f", []byte("inside"), 0o644))
	must(t, os.Symlink("../outside", w.inside+"/out"))
	must(t, os.Rename(w.inside+"/real", w.inside+"/p"))

	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// The host does the swapping: it is the strongest attacker.
			_ = os.Rename(w.inside+"/p", w.inside+"/real")
			_ = os.Rename(w.inside+"/out", w.inside+"/p")
			_ = os.Rename(w.inside+"/p", w.inside+"/out")
			_ = os.Rename(w.inside+"/real", w.inside+"/p")
		}
	})
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 300 {
				if got, e := w.read("p/f"); e == 0 && strings.Contains(got, secretText) {
					t.Error("read the outside")
					return
				}
				if f, e := w.fs.OpenFile("p/new", esys.O_WRONLY|esys.O_CREAT, 0o644); e == 0 {
					f.Write([]byte("x"))
					f.Close()
				}
				w.fs.Mkdir("p/dir", 0o755)
				w.fs.Rmdir("p/dir")
				w.fs.Symlink("f", "p/link")
				w.fs.Unlink("p/link")
				w.fs.Link("p/f", "p/hard")
				w.fs.Unlink("p/hard")
				w.fs.Rename("p/new", "p/newer")
				w.fs.Utimens("p/f", 1, 1)
				w.fs.Chmod("p/f", 0o600)
			}
		})
	}
	users.Wait()
	close(stop)
	swaps.Wait()
	entries, err := os.ReadDir(outside)
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("entries appeared outside: %v", entries)
	}
	got, err := os.ReadFile(outside + "/f")
	must(t, err)
	info, err := os.Stat(outside + "/f")
	must(t, err)
	if string(got) != secretText || info.Mode().Perm() != 0o644 || info.ModTime().Year() < 2000 {
		t.Errorf("the outside changed: %q, %v", got, info.Mode())
	}
}
