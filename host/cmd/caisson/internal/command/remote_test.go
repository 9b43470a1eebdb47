package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host/cmd/caisson/internal/datadir"
)

// The development key is read as the server reads it: one that anybody could have put
// there, or that is cut off, is sent to nobody.
func TestDevelopmentKeyForRemote(t *testing.T) {
	const key = "caisson-dev-0123456789abcdef\n"
	for _, tt := range []struct {
		name string
		put  func(path string) error
		says string
	}{
		{"none", func(string) error { return nil }, "there is no credential"},
		{"a link", func(path string) error {
			elsewhere := filepath.Join(filepath.Dir(path), "elsewhere")
			if err := os.WriteFile(elsewhere, []byte(key), 0o600); err != nil {
				return err
			}
			return os.Symlink(elsewhere, path)
		}, "development key"},
		{"open to others", func(path string) error { return os.WriteFile(path, []byte(key), 0o644) }, "only its owner may read"},
		{"damaged", func(path string) error { return os.WriteFile(path, []byte("short\n"), 0o600) }, "is damaged"},
		{"good", func(path string) error { return os.WriteFile(path, []byte(key), 0o600) }, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := t.TempDir()
			if err := tt.put(filepath.Join(data, datadir.DevKeyFile)); err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(data, "x.py")
			if err := os.WriteFile(program, []byte("1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			r := invocation{exe: os.Args[0]}.run(t, "run", "--url", "http://127.0.0.1:1", "--data", data, program)
			if r.code != exitFailure || !strings.Contains(r.stderr, tt.says) {
				t.Errorf("%+v, want %q", r, tt.says)
			}
		})
	}
}
