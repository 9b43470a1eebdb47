package identity

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestSecretFileIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	got := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			b, err := SecretFile(path)
			if err != nil {
				t.Error(err)
			}
			got[i] = b
		})
	}
	wg.Wait()
	for _, b := range got {
		if len(b) < MinSecret || !bytes.Equal(b, got[0]) {
			t.Fatalf("processes starting together got different secrets: %q", got)
		}
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, want 0600", st.Mode())
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".secret-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files left: %v %v", left, err)
	}
}

func TestSecretFileRefusals(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := "0123456789abcdef0123"
	for name, path := range map[string]string{
		"readable by others": write("open", good, 0o644),
		"too short":          write("short", "abc", 0o600),
		"empty":              write("empty", "", 0o600),
		"too long":           write("long", string(make([]byte, 5000)), 0o600),
		"a directory":        dir,
		"no parent":          filepath.Join(dir, "absent", "secret"),
	} {
		if b, err := SecretFile(path); err == nil {
			t.Errorf("%s: accepted %q", name, b)
		}
	}
	b, err := SecretFile(write("ok", good+"\n", 0o600))
	if err != nil || string(b) != good {
		t.Errorf("SecretFile = %q, %v; want %q", b, err, good)
	}
}
