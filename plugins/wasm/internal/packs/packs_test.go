package packs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dir is where `make packs` installs.
const dir = "../../packs"

// install makes a directory with one pack of the given content.
func install(t *testing.T, content string) (string, []Pack) {
	t.Helper()
	d := t.TempDir()
	sum := sha256.Sum256([]byte("the interpreter"))
	p := Pack{
		Name: "x", Package: "@a/b", PackageVersion: "1.0.0", File: "@a/b/dist/x.wasm",
		SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len("the interpreter")),
	}
	if content != "" {
		file := filepath.Join(d, "node_modules", p.File)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return d, []Pack{p}
}

func TestLocate(t *testing.T) {
	d, table := install(t, "the interpreter")
	s := locate(d, table)
	if err := s.Check("x"); err != nil {
		t.Fatal(err)
	}
	b, p, err := s.Read("x")
	if err != nil || string(b) != "the interpreter" || p.Package != "@a/b" {
		t.Fatalf("read: %q, %+v, %v", b, p, err)
	}
	// Replaced after Locate.
	if err := os.WriteFile(filepath.Join(d, "node_modules", p.File), []byte("the 1nterpreter"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read("x"); !errors.Is(err, ErrMissing) {
		t.Errorf("a replaced file was read: %v", err)
	}
}

func TestMissingOrForeign(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"absent":    {"", "not installed"},
		"truncated": {"the inter", "has 9 bytes, the pinned one 15"},
		"changed":   {"the Interpreter", "has digest"},
	} {
		t.Run(name, func(t *testing.T) {
			d, table := install(t, tc.content)
			err := locate(d, table).Check("x")
			if !errors.Is(err, ErrMissing) {
				t.Fatalf("check: %v", err)
			}
			for _, want := range []string{tc.want, "@a/b@1.0.0", `"make packs"`} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), d) {
				t.Errorf("%q names a host path", err)
			}
		})
	}
	if err := locate(t.TempDir(), nil).Check("nothing"); !errors.Is(err, ErrMissing) {
		t.Errorf("an unknown pack: %v", err)
	}
}

func TestInstalledPacks(t *testing.T) {
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil && os.Getenv("CAISSON_CI") == "" {
		t.Skipf("interpreter packs are not installed; run %q", AddCommand)
	}
	s := Locate(dir)
	for _, p := range s.Packs() {
		if err := s.Check(p.Name); err != nil {
			t.Error(err)
		}
	}
}

// TestLockFile holds the two pins together: the table's packages are locked at
// the table's versions, everything locked has an integrity hash, and nothing
// says from where to download.
func TestLockFile(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			Version, Integrity, Resolved string
			Dependencies                 map[string]string
		}
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		t.Fatal(err)
	}
	for name, p := range lock.Packages {
		if p.Resolved != "" {
			t.Errorf("%s has a download address", name)
		}
		if name != "" && !strings.HasPrefix(p.Integrity, "sha512-") {
			t.Errorf("%s has no sha512 integrity hash", name)
		}
	}
	for _, p := range Table() {
		if got := lock.Packages["node_modules/"+p.Package].Version; got != p.PackageVersion {
			t.Errorf("%s is locked at %q, the table wants %q", p.Package, got, p.PackageVersion)
		}
		if got := lock.Packages[""].Dependencies[p.Package]; got != p.PackageVersion {
			t.Errorf("package.json wants %s %q, not exactly %q", p.Package, got, p.PackageVersion)
		}
	}
}
