package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/manifest"
)

const source = `# A comment that must survive.
schema: 1
name: sample
version: 1.0.0
kind: backend
runtime: process
protocol: 1
path: lib/sample
`

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestInstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins", "sample")
	src := write(t, "plugin.yaml", source)
	for _, program := range []string{"first build", "second build"} {
		if err := run([]string{"-o", dir, src, write(t, "built", program)}, io.Discard); err != nil {
			t.Fatal(err)
		}
		m, err := manifest.Load(dir, manifest.RequireDigest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.ReadArtifact(dir) // fails unless the digest is that of the file
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != program {
			t.Errorf("artifact is %q, want %q", got, program)
		}
	}

	text, err := os.ReadFile(filepath.Join(dir, manifest.FileName))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# A comment that must survive.\n") {
		t.Errorf("the comment is gone:\n%s", text)
	}
	info, err := os.Stat(filepath.Join(dir, "lib", "sample"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o755 {
		t.Errorf("a program has mode %v", info.Mode())
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestRefuse(t *testing.T) {
	good := write(t, "plugin.yaml", source)
	bad := write(t, "plugin.yaml", source+"colour: blue\n")
	program := write(t, "built", "program")
	missing := filepath.Join(t.TempDir(), "none")
	dir := filepath.Join(t.TempDir(), "out")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no directory":     {[]string{good, program}, "usage"},
		"no artifact":      {[]string{"-o", dir, good}, "usage"},
		"bad manifest":     {[]string{"-o", dir, bad, program}, "colour"},
		"missing manifest": {[]string{"-o", dir, missing, program}, "no such file"},
		"missing artifact": {[]string{"-o", dir, good, missing}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := run(test.args, io.Discard)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("something was written")
			}
		})
	}
}
