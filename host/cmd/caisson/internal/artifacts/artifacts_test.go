package artifacts

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func open(t *testing.T) (*Dir, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, dir
}

func TestSave(t *testing.T) {
	d, dir := open(t)
	got, err := d.Save("sub/dir/a b.txt", strings.NewReader("content"))
	if err != nil || got != filepath.Join(dir, "sub/dir/a b.txt") {
		t.Fatalf("Save = %q, %v", got, err)
	}
	if b, err := os.ReadFile(got); err != nil || string(b) != "content" {
		t.Errorf("file = %q, %v", b, err)
	}
	if _, err := d.Save("sub/dir/a b.txt", strings.NewReader("other")); !errors.Is(err, ErrExists) {
		t.Errorf("second Save = %v, want ErrExists", err)
	}
	if b, _ := os.ReadFile(got); string(b) != "content" {
		t.Errorf("a refused Save changed the file to %q", b)
	}
	d.Force = true
	if _, err := d.Save("sub/dir/a b.txt", strings.NewReader("other")); err != nil {
		t.Errorf("forced Save = %v", err)
	}
	if b, _ := os.ReadFile(got); string(b) != "other" {
		t.Errorf("a forced Save left %q", b)
	}
}

func TestSaveStaysInside(t *testing.T) {
	d, dir := open(t)
	outside := filepath.Join(filepath.Dir(dir), "victim")
	if err := os.WriteFile(outside, []byte("safe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"up": "..", "abs": filepath.Dir(dir), "file": "../victim"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, force := range []bool{false, true} {
		d.Force = force
		for _, name := range []string{"../victim", "/victim", "a/../../victim", "up/victim", "abs/victim", "", ".", "..", "a//b", "a\x00b"} {
			if got, err := d.Save(name, strings.NewReader("overwritten")); err == nil {
				t.Errorf("Save(%q) with force %v wrote %s", name, force, got)
			}
		}
		// Through a link at the last component: refused, or the link is replaced.
		_, _ = d.Save("file", strings.NewReader("overwritten"))
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "safe" {
		t.Errorf("a file outside is now %q, %v", b, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 2 {
		t.Errorf("outside there are %v, %v; want only out and victim", entries, err)
	}
}

func TestFailedSaveLeavesNothing(t *testing.T) {
	d, dir := open(t)
	broken := iotest.ErrReader(io.ErrUnexpectedEOF)
	if _, err := d.Save("a", io.MultiReader(strings.NewReader("half"), broken)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Save = %v, want the reader's error", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a file is left: %v", err)
	}
}
