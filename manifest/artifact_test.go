package manifest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/caisson-run/caisson/manifest"
)

func digestOf(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

// plugin makes a plugin directory whose manifest pins digest, if that is given.
func plugin(t *testing.T, digest string) string {
	t.Helper()
	dir := t.TempDir()
	src := backend
	if digest != "" {
		src += "sha256: \"" + digest + "\"\n"
	}
	write(t, filepath.Join(dir, manifest.FileName), src)
	return dir
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o755); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, dir string, opts ...manifest.Option) *manifest.Manifest {
	t.Helper()
	m, err := manifest.Load(dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestArtifact(t *testing.T) {
	dir := plugin(t, digestOf("program"))
	write(t, filepath.Join(dir, "docker"), "program")
	m := load(t, dir, manifest.RequireDigest)

	f, err := m.OpenArtifact(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != "program" {
		t.Errorf("the open artifact reads %q, %v", got, err)
	}
	// The offset is at the end now, and must neither matter nor move.
	if digest, err := m.VerifyFile(f); err != nil || digest != digestOf("program") {
		t.Errorf("VerifyFile = %q, %v", digest, err)
	}
	if at, err := f.Seek(0, io.SeekCurrent); err != nil || at != int64(len("program")) {
		t.Errorf("the offset moved to %d, %v", at, err)
	}
	if got, err := m.ReadArtifact(dir); err != nil || string(got) != "program" {
		t.Errorf("ReadArtifact = %q, %v", got, err)
	}
}

// TestArtifactSwapped replaces the file between opening and verifying, as an
// attacker would: what counts is the file that is open.
func TestArtifactSwapped(t *testing.T) {
	dir := plugin(t, digestOf("program"))
	path := filepath.Join(dir, "docker")
	write(t, path, "program")
	m := load(t, dir)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write(t, path+".new", "malware")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if _, err := m.VerifyFile(f); err != nil {
		t.Errorf("the open file is the right one: %v", err)
	}
	if _, err := m.OpenArtifact(dir); err == nil {
		t.Error("the path leads to the wrong file now, and was accepted")
	}
}

func TestArtifactChanged(t *testing.T) {
	dir := plugin(t, digestOf("program"))
	write(t, filepath.Join(dir, "docker"), "malware")
	m := load(t, dir)
	open := func() error { _, err := m.OpenArtifact(dir); return err }
	read := func() error { _, err := m.ReadArtifact(dir); return err }
	reader := func() error { _, err := m.VerifyReader(strings.NewReader("malware")); return err }
	for name, call := range map[string]func() error{"OpenArtifact": open, "ReadArtifact": read, "VerifyReader": reader} {
		err := call()
		var e *manifest.DigestError
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		want := manifest.DigestError{Plugin: "docker", Path: "docker", Expected: digestOf("program"), Actual: digestOf("malware")}
		if *e != want {
			t.Errorf("%s: got %+v", name, *e)
		}
		for _, part := range []string{want.Expected, want.Actual, "set sha256 in plugin.yaml"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the message lacks %q: %v", name, part, err)
			}
		}
	}
}

func TestArtifactUnpinned(t *testing.T) {
	dir := plugin(t, "")
	write(t, filepath.Join(dir, "docker"), "anything")
	m := load(t, dir)
	if digest, err := m.VerifyReader(strings.NewReader("anything")); err != nil || digest != digestOf("anything") {
		t.Errorf("VerifyReader = %q, %v", digest, err)
	}
	if _, err := manifest.Load(dir, manifest.RequireDigest); err == nil {
		t.Error("loaded in strict mode")
	}
}

// TestNotAnArtifact has everything in an artifact's place that is not one. None
// may be opened, and none may block.
func TestNotAnArtifact(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	write(t, outside, "secret")
	for name, tt := range map[string]struct {
		make func(path string) error
		want string
	}{
		"missing":        {func(string) error { return nil }, "no such file"},
		"directory":      {func(p string) error { return os.Mkdir(p, 0o755) }, "not a regular file"},
		"named pipe":     {func(p string) error { return syscall.Mkfifo(p, 0o644) }, "not a regular file"},
		"link outside":   {func(p string) error { return os.Symlink(outside, p) }, "escapes"},
		"relative climb": {func(p string) error { return os.Symlink("../../../../../../etc/passwd", p) }, "escapes"},
		"dangling link":  {func(p string) error { return os.Symlink("nothing", p) }, "no such file"},
		"link to itself": {func(p string) error { return os.Symlink(filepath.Base(p), p) }, "too many"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := plugin(t, digestOf("secret"))
			m := load(t, dir)
			if err := tt.make(filepath.Join(dir, "docker")); err != nil {
				t.Fatal(err)
			}
			f, err := m.OpenArtifact(dir)
			if err == nil {
				f.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `plugin "docker"`) {
				t.Errorf("OpenArtifact: got %v, want %q", err, tt.want)
			}
			if _, err := m.ReadArtifact(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("ReadArtifact: got %v, want %q", err, tt.want)
			}

			dir = t.TempDir()
			if err := tt.make(filepath.Join(dir, manifest.FileName)); err != nil {
				t.Fatal(err)
			}
			if _, err := manifest.Load(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load: got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLinkInside(t *testing.T) {
	dir := plugin(t, digestOf("program"))
	write(t, filepath.Join(dir, "docker-1.0"), "program")
	if err := os.Symlink("docker-1.0", filepath.Join(dir, "docker")); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, dir).ReadArtifact(dir); err != nil {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	if _, err := manifest.Load(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got %v", err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, manifest.FileName), "schema: 1\nnmae: x\n")
	_, err := manifest.Load(dir)
	var e *manifest.Error
	if !errors.As(err, &e) || e.File != filepath.Join(dir, manifest.FileName) {
		t.Errorf("a bad manifest: got %v", err)
	}
	if err := os.Truncate(filepath.Join(dir, manifest.FileName), 1<<30); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := manifest.Load(dir); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a huge manifest: got %v", err)
	}
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 16*manifest.MaxSize {
		t.Errorf("reading it allocated %d bytes", spent)
	}
}

func TestReadArtifactIsBounded(t *testing.T) {
	dir := plugin(t, "")
	path := filepath.Join(dir, "docker")
	write(t, path, "")
	if err := os.Truncate(path, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	if _, err := load(t, dir).ReadArtifact(dir); err == nil || !strings.Contains(err.Error(), "larger than 64 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestVerifyReaderFails(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("pro"), iotestErr{})
	if _, err := parse(t, backend).VerifyReader(broken); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

var errBroken = errors.New("broken")

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, errBroken }

// BenchmarkVerifyFile hashes 64 MiB; BenchmarkSHA256 is what that costs at least.
func BenchmarkVerifyFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "artifact")
	if err := os.WriteFile(path, make([]byte, 64<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	m := parse(b, backend)
	b.SetBytes(64 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.VerifyFile(f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSHA256(b *testing.B) {
	data := bytes.Repeat([]byte{0}, 64<<20)
	b.SetBytes(64 << 20)
	for b.Loop() {
		sha256.Sum256(data)
	}
}
