// Package docs holds the tests that keep the documents true: links lead
// somewhere, and code that they show is code that is compiled.
package docs

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	link  = regexp.MustCompile(`\]\(([^)#][^)]*)\)`)
	block = regexp.MustCompile("(?ms)^```(go|yaml)\n(.*?)^```$")
)

// sources reads what documents may quote.
func sources(t *testing.T, root fs.FS) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (base == "node_modules" || strings.HasPrefix(base, ".") || name == "bin" || name == "data"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case path.Ext(base) == ".go" || path.Ext(base) == ".yaml" || path.Ext(base) == ".md":
			text, err := fs.ReadFile(root, name)
			all[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDocuments(t *testing.T) {
	root := os.DirFS("../..")
	all := sources(t, root)
	documents := 0
	for name, text := range all {
		if path.Ext(name) != ".md" || strings.Contains(name, "testdata/") {
			continue
		}
		documents++
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := fs.Stat(root, path.Join(path.Dir(name), target)); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			}
		}
		for _, m := range block.FindAllStringSubmatch(text, -1) {
			if !quoted(all, "."+m[1], m[2]) {
				t.Errorf("%s: no .%s file of the repository contains this block:\n%s", name, m[1], m[2])
			}
		}
	}
	if documents < 5 {
		t.Errorf("only %d documents found", documents)
	}
}

// quoted reports whether a file of an extension contains a piece of text.
func quoted(all map[string]string, ext, text string) bool {
	for name, source := range all {
		if path.Ext(name) == ext && strings.Contains(source, text) {
			return true
		}
	}
	return false
}
