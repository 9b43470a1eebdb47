package manifest_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/manifest"
)

// FuzzParse: no input panics; every error is typed, readable and placed within
// the file; a manifest that parses has a canonical form that parses to the same,
// and takes a digest without any other change.
func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join(fixtures, "*", "*.yaml"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no fixtures: %v", err)
	}
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	digest := strings.Repeat("0123456789abcdef", 4)
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := manifest.Parse("plugin.yaml", src)
		if err != nil {
			checkErrors(t, src, err)
			return
		}
		first, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := manifest.Parse("plugin.yaml", first)
		if err != nil {
			t.Fatalf("canonical form: %v\n%s", err, first)
		}
		if second, err := json.Marshal(again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("canonical form is not stable: %v\n%s\n%s", err, first, second)
		}
		// Pin may decline a layout, never get it wrong.
		pinned, err := manifest.Pin(src, digest)
		if err != nil {
			return
		}
		got, err := manifest.Parse("plugin.yaml", pinned, manifest.RequireDigest)
		if err != nil || got.SHA256 != digest {
			t.Fatalf("pinned: %v\n%s", err, pinned)
		}
		if twice, err := manifest.Pin(pinned, digest); err != nil || !bytes.Equal(twice, pinned) {
			t.Fatalf("pinning twice: %v\n%s\n%s", err, pinned, twice)
		}
	})
}

// FuzzConfig: no configuration panics; what CompleteConfig returns is valid,
// complete, and stays as it is; and it says no exactly when ValidateConfig does,
// unless a default was what was missing.
func FuzzConfig(f *testing.F) {
	src, err := os.ReadFile(filepath.Join(fixtures, "good", "backend-full.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	m, err := manifest.Parse("plugin.yaml", src)
	if err != nil {
		f.Fatal(err)
	}
	for _, config := range []string{
		``, `{}`, `null`, `{"image":"a"}`, `{"image":"a","memory":67108864.0}`, `{"image":"a","memory":1e999}`,
		`{"image":"a","network":{"mode":"allow","allow":["example.com"]},"registries":[{"host":"h"}]}`,
		`{"image":"a","auth":{"token":"t"}}`, `{"image":"a","auth":{"token":"t","user":"u","password":"p"}}`,
		`{"image":"a"} {}`, `{"image":"a","image":"b","nope":[[[{"x":null}]]]}`,
	} {
		f.Add([]byte(config))
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		valid := m.ValidateConfig(config)
		full, err := m.CompleteConfig(config)
		if err != nil {
			if valid == nil {
				t.Fatalf("valid, but not once completed: %v", err)
			}
			checkConfigErrors(t, err)
			return
		}
		if err := m.ValidateConfig(full); err != nil {
			t.Fatalf("completed to something invalid: %v\n%s", err, full)
		}
		if again, err := m.CompleteConfig(full); err != nil || !bytes.Equal(again, full) {
			t.Fatalf("completing twice: %v\n%s\n%s", err, full, again)
		}
	})
}
