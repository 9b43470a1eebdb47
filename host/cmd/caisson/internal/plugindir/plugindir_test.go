package plugindir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func fine(string) error { return nil }

func TestReplace(t *testing.T) {
	from, plugins := t.TempDir(), t.TempDir()
	to := filepath.Join(plugins, "p")
	write(t, filepath.Join(from, "plugin.yaml"), "one", 0o644)
	write(t, filepath.Join(from, "sub", "program"), "run", 0o777)
	if err := Replace(t.Context(), from, to, fine); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(to, "sub", "program")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", st, err)
	}
	write(t, filepath.Join(from, "plugin.yaml"), "two", 0o644)
	if err := os.RemoveAll(filepath.Join(from, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := Replace(t.Context(), from, to, fine); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(to, "plugin.yaml")); string(b) != want {
			t.Errorf("%q %v, want %q", b, err, want)
		}
		if left, err := os.ReadDir(plugins); err != nil || len(left) != 1 {
			t.Errorf("left: %v %v", left, err)
		}
	}
	expect("two")
	if _, err := os.Stat(filepath.Join(to, "sub")); err == nil {
		t.Error("a file of the version before is there")
	}

	// What fails changes nothing.
	write(t, filepath.Join(from, "plugin.yaml"), "three", 0o644)
	if err := Replace(t.Context(), from, to, func(string) error { return errors.New("refused") }); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	expect("two")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Replace(canceled, from, to, fine); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	expect("two")
	for name, make := range map[string]func(string) error{
		"link": func(p string) error { return os.Symlink("/etc/passwd", p) },
		"fifo": func(p string) error { return syscall.Mkfifo(p, 0o600) },
	} {
		path := filepath.Join(from, name)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if err := Replace(t.Context(), from, to, fine); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", name, err)
		}
		expect("two")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := Replace(t.Context(), filepath.Join(from, "absent"), to, fine); err == nil {
		t.Error("nothing was installed")
	}
	expect("two")
}
