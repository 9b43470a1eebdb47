package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Lint names what lies in a plugin's directory and belongs to nothing, and refuses it
// for none of that.
func TestLintNamesWhatLiesBeside(t *testing.T) {
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	odd := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, n+" is not mentioned in the manifest: list it under files, or remove it")
		}
		return out
	}
	const files = "files: [data, etc/rules.json]\n"
	for name, c := range map[string]struct {
		more  string
		place []string // a name that ends with a slash is a directory
		want  []string
	}{
		"nothing":         {"", nil, nil},
		"a signature":     {"", []string{"plugin.yaml.minisig"}, nil},
		"sources":         {"", []string{"main.go", "Makefile", ".env", "node_modules/x/", "node_modules/y/"}, odd(".env", "Makefile", "main.go", "node_modules/")},
		"what is listed":  {files, []string{"data/a", "data/b/", "etc/rules.json"}, nil},
		"beside that":     {files, []string{"data/a", "etc/rules.json", "etc/other.json", "etc/more/x"}, odd("etc/more/", "etc/other.json")},
		"listed and gone": {files, []string{"data/a"}, []string{"etc/rules.json is among the files of the manifest, and is not there"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := policyVersion(t, t.TempDir(), "1.0.0", c.more, code)
			for _, n := range c.place {
				at := filepath.Join(dir, n)
				if strings.HasSuffix(n, "/") {
					err = os.MkdirAll(at, 0o755)
				} else {
					err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			d := Lint(t.Context(), dir, Trust{})
			if d.State != PluginUnused || !slices.Equal(d.Warnings, c.want) {
				t.Errorf("%s %s\n%s\nwant\n%s", d.State, d.Cause, strings.Join(d.Warnings, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
	t.Run("hundreds", func(t *testing.T) {
		dir := policyVersion(t, t.TempDir(), "1.0.0", "", code)
		for i := range 300 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d", i)), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if d := Lint(t.Context(), dir, Trust{}); len(d.Warnings) != maxBeside+1 || d.Warnings[maxBeside] != "and more" {
			t.Errorf("%d warnings", len(d.Warnings))
		}
	})
	t.Run("a link out of it", func(t *testing.T) {
		dir := policyVersion(t, t.TempDir(), "1.0.0", files, code)
		if err := errors.Join(os.Symlink("/", filepath.Join(dir, "data")), os.Symlink("/etc", filepath.Join(dir, "etc"))); err != nil {
			t.Fatal(err)
		}
		want := append([]string{"etc/rules.json is among the files of the manifest, and is not there"}, odd("etc")...)
		if d := Lint(t.Context(), dir, Trust{}); !slices.Equal(d.Warnings, want) {
			t.Errorf("%q", d.Warnings)
		}
	})
}
