// Package scaffold writes the beginnings of plugins. What it writes builds and passes
// lint and verify as it is; it knows nothing of what plugins do.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/caisson-run/caisson/manifest"
	"github.com/caisson-run/caisson/sdk/assemblyscript"
)

//go:embed templates
var templates embed.FS

// module is Caisson's own, opaVersion what builds Rego.
const (
	module     = "github.com/caisson-run/caisson"
	opaVersion = "v1.22.4"
)

// Project is what is to be written.
type Project struct {
	// Kind is "backend", "policy" or "language".
	Kind string
	// Name is the plugin's, by the rule of manifests.
	Name string
	// Lang is "go", "assemblyscript" or "rego"; empty is "go".
	Lang string
	// Dir is made, and must not exist.
	Dir string
	// SDK is a directory with Caisson's sources to build against; empty takes Version
	// of the published module.
	SDK string
	// Version is that of the module, such as v1.2.3.
	Version string
}

// Next is a line for a shell that tests and verifies the project once it is written.
// caisson is the program to do it with; empty is the one in the PATH.
func (p Project) Next(caisson string) string {
	line := "cd " + quote(p.Dir) + " && make test verify"
	if caisson != "" {
		line += " CAISSON=" + quote(caisson)
	}
	return line
}

var plain = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// quote makes one word for a shell.
func quote(s string) string {
	if plain.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// langs are the languages that plugins of a kind may be written in here.
var langs = map[string][]string{
	"backend": {"go"}, "language": {"go"}, "policy": {"go", "assemblyscript", "rego"},
}

// DirError says why Project.Dir cannot be made.
type DirError struct{ Err error }

func (e *DirError) Error() string { return e.Err.Error() }
func (e *DirError) Unwrap() error { return e.Err }

// Write writes the project and returns the paths of its files below Dir, sorted.
// Nothing is left of it on failure.
func Write(p Project) (files []string, err error) {
	if p.Lang == "" {
		p.Lang = "go"
	}
	all, err := p.files()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(p.Dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%s is there already: nothing is overwritten", p.Dir)
		}
		return nil, &DirError{err}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(p.Dir))
		}
	}()
	for name, text := range all {
		file := filepath.Join(p.Dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	slices.Sort(files)
	return files, nil
}

// files are the contents by path.
func (p Project) files() (map[string][]byte, error) {
	switch known := langs[p.Kind]; {
	case known == nil:
		return nil, fmt.Errorf("%q is no kind of plugin: want backend, policy or language", p.Kind)
	case !slices.Contains(known, p.Lang):
		return nil, fmt.Errorf("a %s is not written in %q here: want %s", p.Kind, p.Lang, strings.Join(known, ", "))
	}
	all := make(map[string][]byte)
	if err := p.render(all); err != nil {
		return nil, err
	}
	if _, err := manifest.Parse(manifest.FileName, all[manifest.FileName]); err != nil {
		return nil, err // the name is what can be wrong with it
	}
	switch p.Lang {
	case "go":
		return all, p.addGo(all)
	case "assemblyscript":
		return all, p.addAssemblyScript(all)
	}
	return all, nil
}

// render fills the templates in. Files without the ending are taken as they are.
func (p Project) render(all map[string][]byte) error {
	root := path.Join("templates", p.Kind+"-"+p.Lang)
	return fs.WalkDir(templates, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := templates.ReadFile(name)
		if err != nil {
			return err
		}
		to, isTemplate := strings.CutSuffix(strings.TrimPrefix(name, root+"/"), ".tmpl")
		if isTemplate {
			t, err := template.New(name).Delims("[[", "]]").Parse(string(text))
			if err != nil {
				return err
			}
			var out bytes.Buffer
			if err := t.Execute(&out, map[string]string{"Name": p.Name, "OPA": opaVersion}); err != nil {
				return err
			}
			text = out.Bytes()
		}
		all[to] = text
		return nil
	})
}

// addReference adds the reference backend, from the sources of the SDK: it is not
// part of this program.
func (p Project) addReference(all map[string][]byte) error {
	if p.SDK == "" {
		return errors.New("a backend begins as a copy of the reference backend: name a directory with Caisson's sources by --sdk")
	}
	from := filepath.Join(p.SDK, "internal", "hostbackend")
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("the SDK: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return err
		}
		text = bytes.Replace(text, []byte("package hostbackend"), []byte("package sandbox"), 1)
		all["sandbox/"+e.Name()] = bytes.Replace(text, []byte("// Package hostbackend "), []byte("// Package sandbox "), 1)
	}
	return nil
}

// addAssemblyScript adds the SDK itself, which is a handful of files.
func (p Project) addAssemblyScript(all map[string][]byte) error {
	return fs.WalkDir(assemblyscript.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := assemblyscript.Files.ReadFile(name)
		if strings.HasPrefix(name, "caisson/") {
			name = "assembly/" + name
		} else {
			text = bytes.ReplaceAll(text, []byte(`"name": "caisson-guest"`), fmt.Appendf(nil, `"name": %q`, p.Name))
			text = regexp.MustCompile(`(?m)^  "description":.*\n`).ReplaceAll(text, nil)
		}
		all[name] = text
		return err
	})
}
