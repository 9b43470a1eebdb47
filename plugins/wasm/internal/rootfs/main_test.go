package rootfs

import (
	"os"
	"testing"

	esys "github.com/tetratelabs/wazero/experimental/sys"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a root with a secret beside it that no operation may reach.
type world struct {
	fs     *FS
	root   *os.Root
	quota  *Quota
	inside string // host path of the root
	secret string // host path of a file outside
}

const secretText = "the host's secret"

func newWorld(t *testing.T, l Limits, opt Options) *world {
	t.Helper()
	base := t.TempDir()
	w := &world{inside: base + "/root", secret: base + "/secret"}
	must(t, os.Mkdir(w.inside, 0o700))
	must(t, os.WriteFile(w.secret, []byte(secretText), 0o600))
	root, err := os.OpenRoot(w.inside)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	w.root = root
	w.quota = NewQuota(l)
	w.fs = New(root, w.quota, opt)
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ok(t *testing.T, e esys.Errno) {
	t.Helper()
	if e != 0 {
		t.Fatalf("errno %v", e)
	}
}

func want(t *testing.T, got, want esys.Errno) {
	t.Helper()
	if got != want {
		t.Fatalf("errno %v, want %v", got, want)
	}
}

// used checks the account.
func (w *world) used(t *testing.T, bytes, entries int64) {
	t.Helper()
	if b, n := w.quota.Used(); b != bytes || n != entries {
		t.Fatalf("account has %d bytes and %d entries, want %d and %d", b, n, bytes, entries)
	}
}

// open opens and closes at the end of the test.
func (w *world) open(t *testing.T, p string, flag esys.Oflag) esys.File {
	t.Helper()
	f, e := w.fs.OpenFile(p, flag, 0o644)
	if e != 0 {
		t.Fatalf("open %s: %v", p, e)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// put writes a whole file through the FS.
func (w *world) put(t *testing.T, p, text string) {
	t.Helper()
	f, e := w.fs.OpenFile(p, esys.O_WRONLY|esys.O_CREAT|esys.O_TRUNC, 0o644)
	if e != 0 {
		t.Fatalf("create %s: %v", p, e)
	}
	if n, e := f.Write([]byte(text)); e != 0 || n != len(text) {
		t.Fatalf("write %s: %d, %v", p, n, e)
	}
	ok(t, f.Close())
}

// read reads a whole file through the FS.
func (w *world) read(p string) (string, esys.Errno) {
	f, e := w.fs.OpenFile(p, esys.O_RDONLY, 0)
	if e != 0 {
		return "", e
	}
	defer f.Close()
	buf := make([]byte, 1<<16)
	n, e := f.Read(buf)
	return string(buf[:n]), e
}
