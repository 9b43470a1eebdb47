package packs

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// built is a pack on disk that a test makes, and changes before it is looked for.
type built struct {
	root, dir string
	desc      map[string]any
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// buildPack writes a sound pack "x" with two modules in its library.
func buildPack(t *testing.T) *built {
	t.Helper()
	b := &built{root: t.TempDir()}
	b.dir = filepath.Join(b.root, "x")
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.desc = map[string]any{
		"format": 1, "pack": "x", "version": "X 1.0, built", "licence": "MIT",
		"packages": map[string]string{"x": "1.0-1"},
		"module":   b.write(t, "x.wasm", []byte("built module")),
		"library":  b.write(t, "library.zip", zipOf(t, zip.Store, "lib-dynload/", "os.py", "json/decoder.py")),
		"exports":  map[string]string{"run": "f"},
	}
	b.library()["directory"] = "/usr/local/lib/x"
	b.describe(t)
	return b
}

func (b *built) library() map[string]any { return b.desc["library"].(map[string]any) }
func (b *built) module() map[string]any  { return b.desc["module"].(map[string]any) }

func (b *built) write(t *testing.T, name string, content []byte) map[string]any {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), content, 0o644); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"file": name, "bytes": len(content), "sha256": sum(content)}
}

func (b *built) describe(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(b.desc)
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, descriptionFile, text)
}

// zipOf makes a zip whose files contain their names.
func zipOf(t *testing.T, method uint16, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range names {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil && !strings.HasSuffix(name, "/") {
			_, err = io.WriteString(w, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBuiltReplacesFetched(t *testing.T) {
	b := buildPack(t)
	table := []Pack{{Name: "x", Version: "X 0.9", Core: true, Languages: []string{"xx"}}, {Name: "y"}}
	s := locate(b.root, table)
	if err := errors.Join(s.Check("x"), s.Rejected()); err != nil {
		t.Fatal(err)
	}
	wasm, p, err := s.Read("x")
	if err != nil || string(wasm) != "built module" || p.Version != "X 1.0, built" || !p.Core || p.Licence != "MIT" || s.Packs()[0].Version != p.Version {
		t.Fatalf("%q, %+v, %v", wasm, p, err)
	}
	x := s.Built("x")
	if x == nil || x.Exports["run"] != "f" || x.LibraryDir != "/usr/local/lib/x" || s.Built("y") != nil {
		t.Fatalf("%+v", x)
	}
	if f := s.Fetched(); f.Built("x") != nil || f.Check("x") == nil || f.Packs()[0].Version != "X 0.9" {
		t.Errorf("the fetched set has %+v", f.Packs())
	}
	l, err := x.OpenLibrary()
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(l, "os.py", "json/decoder.py", "lib-dynload"); err != nil {
		t.Error(err)
	}
	if text, err := fs.ReadFile(l, "json/decoder.py"); err != nil || string(text) != "json/decoder.py" {
		t.Errorf("%q, %v", text, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := fs.ReadFile(l, "os.py"); err == nil {
		t.Error("a closed library can be read")
	}
	// Replaced after Locate.
	b.write(t, "x.wasm", []byte("other module"))
	b.write(t, "library.zip", zipOf(t, zip.Store, "os.py"))
	if _, _, err := s.Read("x"); !errors.Is(err, ErrMissing) {
		t.Errorf("a replaced module was read: %v", err)
	}
	if l, err := x.OpenLibrary(); err == nil {
		t.Errorf("a replaced library was opened: %v", l.Close())
	}
}

func TestNoBuiltPack(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	s := locate(dir, []Pack{{Name: "x"}})
	if s.Built("x") != nil || s.Rejected() != nil {
		t.Errorf("%+v, %v", s.Built("x"), s.Rejected())
	}
}

// Every fault leaves the fetched pack in its place, and is told.
func TestBuiltRejected(t *testing.T) {
	chmod := func(name string, mode fs.FileMode) func(*testing.T, *built) {
		return func(t *testing.T, b *built) {
			if err := os.Chmod(filepath.Join(b.dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	set := func(change func(b *built)) func(*testing.T, *built) {
		return func(t *testing.T, b *built) { change(b); b.describe(t) }
	}
	library := func(content func(t *testing.T) []byte) func(*testing.T, *built) {
		return func(t *testing.T, b *built) {
			b.desc["library"] = b.write(t, "library.zip", content(t))
			b.library()["directory"] = "/usr/local/lib/x"
			b.describe(t)
		}
	}
	for name, tc := range map[string]struct {
		change func(*testing.T, *built)
		want   string
	}{
		"directory for others":  {chmod("", 0o777), "pack.json: it and its directory must be root's or ours"},
		"description for group": {chmod(descriptionFile, 0o664), "pack.json: it and its directory"},
		"module for others":     {chmod("x.wasm", 0o646), "x.wasm: it and its directory"},
		"library for others":    {chmod("library.zip", 0o666), "library.zip: it and its directory"},
		"changed module":        {func(t *testing.T, b *built) { b.write(t, "x.wasm", []byte("built modulE")) }, "x.wasm: the installed file has digest"},
		"longer module":         {func(t *testing.T, b *built) { b.write(t, "x.wasm", []byte("built module!")) }, "x.wasm: the installed file has 13 bytes"},
		"missing module":        {set(func(b *built) { b.module()["file"] = "y.wasm" }), "y.wasm: no such file"},
		"changed library": {func(t *testing.T, b *built) {
			b.write(t, "library.zip", zipOf(t, zip.Store, "lib-dynload/", "os.pY", "json/decoder.py"))
		}, "library.zip: the installed file has digest"},
		"format":                 {set(func(b *built) { b.desc["format"] = 2 }), "format: 2 is not 1"},
		"name":                   {set(func(b *built) { b.desc["pack"] = "y" }), `pack: "y" is not "x"`},
		"no version":             {set(func(b *built) { delete(b.desc, "version") }), "version: must have"},
		"unknown field":          {set(func(b *built) { b.desc["extra"] = 1 }), `unknown field "extra"`},
		"file elsewhere":         {set(func(b *built) { b.module()["file"] = "../x/x.wasm" }), "module.file:"},
		"file above":             {set(func(b *built) { b.library()["file"] = ".." }), "library.file:"},
		"no bytes":               {set(func(b *built) { b.module()["bytes"] = 0 }), "module.bytes:"},
		"too many bytes":         {set(func(b *built) { b.library()["bytes"] = int64(1) << 40 }), "library.bytes:"},
		"no digest":              {set(func(b *built) { b.module()["sha256"] = "abc" }), "module.sha256:"},
		"library over the files": {set(func(b *built) { b.library()["directory"] = "/mnt/data" }), "library.directory:"},
		"library upwards":        {set(func(b *built) { b.library()["directory"] = "/usr/local/lib/../../../tmp" }), "library.directory:"},
		"no JSON":                {func(t *testing.T, b *built) { b.write(t, descriptionFile, []byte("pack")) }, "no description of a pack"},
		"two objects":            {func(t *testing.T, b *built) { b.write(t, descriptionFile, append(raw(t, b), raw(t, b)...)) }, "more follows"},
		"long description":       {func(t *testing.T, b *built) { b.write(t, descriptionFile, bytes.Repeat([]byte(" "), maxDescription+1)) }, "longer than"},
		"of another user": {func(t *testing.T, b *built) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give files away")
			}
			if err := os.Chown(filepath.Join(b.dir, "x.wasm"), 12345, -1); err != nil {
				t.Fatal(err)
			}
		}, "x.wasm: it and its directory"},
		"no zip":          {library(func(*testing.T) []byte { return []byte("none") }), "no zip file"},
		"compressed":      {library(func(t *testing.T) []byte { return zipOf(t, zip.Deflate, "os.py") }), "without compression"},
		"path in the zip": {library(func(t *testing.T) []byte { return zipOf(t, zip.Store, "../os.py") }), "is no path"},
		"link": {func(t *testing.T, b *built) {
			if err := errors.Join(os.Rename(b.dir, b.dir+"2"), os.Symlink(b.dir+"2", b.dir)); err != nil {
				t.Fatal(err)
			}
		}, "neither of them a link"},
	} {
		t.Run(name, func(t *testing.T) {
			b := buildPack(t)
			tc.change(t, b)
			s := locate(b.root, []Pack{{Name: "x", Version: "X 0.9"}})
			err := s.Rejected()
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "the built pack x is not used") {
				t.Errorf("rejected: %v, not %q", err, tc.want)
			}
			if s.Built("x") != nil || s.Packs()[0].Version != "X 0.9" {
				t.Error("it is used all the same")
			}
			if err := s.Check("x"); err != nil && strings.Contains(err.Error(), b.root) {
				t.Errorf("%v names a host path", err)
			}
		})
	}
}

func raw(t *testing.T, b *built) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, descriptionFile))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Whatever a description says, files are looked for beside it only, and the library
// goes where it hides nothing.
func FuzzDescription(f *testing.F) {
	f.Add([]byte(`{"format":1,"pack":"x","version":"1","module":{"file":"a","bytes":1,"sha256":"` + sum(nil) +
		`"},"library":{"file":"b","bytes":1,"sha256":"` + sum(nil) + `","directory":"/usr/local/lib/x"}}`))
	f.Add([]byte(`{"format":1,"pack":"x","module":{"file":"../a"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parseDescription(text, "x")
		if err != nil {
			return
		}
		for _, file := range []builtFile{b.module, b.library} {
			if strings.ContainsAny(file.File, `/\`) && filepath.Base(file.File) != file.File || file.File == ".." || file.File == "." || file.Bytes <= 0 {
				t.Errorf("accepted %+v", file)
			}
		}
		if !strings.HasPrefix(b.LibraryDir, "/usr/local/lib/") || strings.Contains(b.LibraryDir, "..") && !fs.ValidPath(b.LibraryDir[1:]) {
			t.Errorf("accepted %q", b.LibraryDir)
		}
	})
}
