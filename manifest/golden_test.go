package manifest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/manifest"
)

var update = flag.Bool("update", false, "rewrite the expected output beside the fixtures")

const fixtures = "../testdata/manifests"

// golden compares got with a file, or writes the file.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run go test ./manifest -update and read the difference)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n--- want\n%s--- got\n%s", path, want, got)
	}
}

// each runs f for every fixture of a directory.
func each(t *testing.T, dir string, f func(t *testing.T, path string, src []byte)) {
	paths, err := filepath.Glob(filepath.Join(fixtures, dir, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures in %s: %v", dir, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f(t, path, src)
		})
	}
}

func expected(path string) string { return strings.TrimSuffix(path, ".yaml") + ".golden" }

func TestGood(t *testing.T) {
	each(t, "good", func(t *testing.T, path string, src []byte) {
		m, err := manifest.Parse(filepath.Base(path), src)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.MarshalIndent(m, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, expected(path), append(raw, '\n'))

		again, err := manifest.Parse(path, raw)
		if err != nil {
			t.Fatalf("its canonical form does not parse: %v\n%s", err, raw)
		}
		if second, err := json.MarshalIndent(again, "", "  "); err != nil || !bytes.Equal(raw, second) {
			t.Errorf("its canonical form changes when read: %v\n%s\n%s", err, raw, second)
		}
	})
}

func TestBad(t *testing.T) {
	each(t, "bad", func(t *testing.T, path string, src []byte) {
		m, err := manifest.Parse(filepath.Base(path), src)
		if err == nil {
			t.Fatalf("parsed: %+v", m)
		}
		if m != nil {
			t.Error("an error came with a manifest")
		}
		checkErrors(t, src, err)
		golden(t, expected(path), []byte(err.Error()+"\n"))
	})
}

// checkErrors holds every error to its promises: typed, with a reason on one
// line, placed within the file, in order.
func checkErrors(t *testing.T, src []byte, err error) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%T is not a joined error", err)
	}
	lines := strings.Split(string(src), "\n")
	last := [2]int{}
	for _, one := range joined.Unwrap() {
		var e *manifest.Error
		if !errors.As(one, &e) {
			t.Fatalf("%T is not a *manifest.Error", one)
		}
		if e.Reason == "" || strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("reason is empty or does not fit a line: %q", e.Error())
		}
		if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > len([]rune(lines[e.Line-1]))+1 {
			t.Errorf("%d:%d is outside the file of %d lines: %s", e.Line, e.Column, len(lines), e)
		}
		at := [2]int{e.Line, e.Column}
		if slices.Compare(at[:], last[:]) < 0 {
			t.Errorf("%v comes after %v", at, last)
		}
		last = at
	}
}
