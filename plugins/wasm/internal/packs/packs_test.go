package packs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// A pack with parts is there when all of them are, and each can be read.
func TestParts(t *testing.T) {
	d, table := install(t, "the interpreter")
	sum := sha256.Sum256([]byte("more"))
	table[0].Parts = []Part{{"@a/b/dist/more.gz", hex.EncodeToString(sum[:]), 4}}
	if err := locate(d, table).Check("x"); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "not installed") {
		t.Errorf("without its part: %v", err)
	}
	part := filepath.Join(d, "node_modules", table[0].Parts[0].File)
	if err := os.WriteFile(part, []byte("more"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := locate(d, table)
	for file, want := range map[string]string{"x.wasm": "the interpreter", "more.gz": "more"} {
		if b, err := s.ReadPart("x", file); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	if b, _, err := s.Read("x"); err != nil || string(b) != "the interpreter" {
		t.Errorf("read: %q, %v", b, err)
	}
	if _, err := s.ReadPart("x", "other"); !errors.Is(err, ErrMissing) {
		t.Errorf("a file that the pack has not: %v", err)
	}
	if err := os.WriteFile(part, []byte("m0re"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadPart("x", "more.gz"); !errors.Is(err, ErrMissing) {
		t.Errorf("a replaced part was read: %v", err)
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
			for _, want := range []string{tc.want, "@a/b@1.0.0", `"make packs PACKS=x"`} {
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
	s := Locate(dir)
	for _, p := range s.Packs() {
		t.Run(p.Name, func(t *testing.T) {
			project := filepath.Join(dir, p.Project, "node_modules")
			if _, err := os.Stat(project); err != nil && os.Getenv("CAISSON_CI") == "" {
				t.Skipf("not installed; run %q", p.Add())
			}
			if err := s.Check(p.Name); err != nil {
				t.Error(err)
			}
		})
	}
}

// The command that a message names is one that make understands.
func TestAddCommand(t *testing.T) {
	makefile, err := os.ReadFile("../../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range Table() {
		want := "PACKS=" + p.Name
		if p.Core {
			want = "make packs"
		}
		if !strings.HasSuffix(p.Add(), want) {
			t.Errorf("%s is added by %q", p.Name, p.Add())
		}
		line := regexp.MustCompile(`(?m)^pack-` + p.Name + `\s*:=(.*)$`).FindSubmatch(makefile)
		for _, f := range append([]Part{{File: p.File}}, p.Parts...) {
			file := filepath.Join(p.Project, "node_modules", f.File)
			if line == nil || !slices.Contains(strings.Fields(string(line[1])), file) {
				t.Errorf("the Makefile does not say that %s has %s", p.Name, file)
			}
		}
	}
}

// TestLockFile holds the two pins together: the table's packages are locked at
// the table's versions, everything locked has an integrity hash, and nothing
// says from where to download.
func TestLockFile(t *testing.T) {
	locks := map[string]lockFile{}
	for _, p := range Table() {
		if _, ok := locks[p.Project]; !ok {
			locks[p.Project] = readLock(t, filepath.Join(dir, p.Project, "package-lock.json"))
		}
		lock := locks[p.Project]
		if got := lock.Packages["node_modules/"+p.Package].Version; got != p.PackageVersion {
			t.Errorf("%s is locked at %q, the table wants %q", p.Package, got, p.PackageVersion)
		}
		if got := lock.Packages[""].Dependencies[p.Package]; got != p.PackageVersion {
			t.Errorf("package.json wants %s %q, not exactly %q", p.Package, got, p.PackageVersion)
		}
	}
}

type lockFile struct {
	Packages map[string]struct {
		Version, Integrity, Resolved string
		Dependencies                 map[string]string
	}
}

func readLock(t *testing.T, file string) (lock lockFile) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &lock); err != nil {
		t.Fatal(err)
	}
	for name, p := range lock.Packages {
		if p.Resolved != "" {
			t.Errorf("%s: %s has a download address", file, name)
		}
		if name != "" && !strings.HasPrefix(p.Integrity, "sha512-") {
			t.Errorf("%s: %s has no sha512 integrity hash", file, name)
		}
	}
	return lock
}
