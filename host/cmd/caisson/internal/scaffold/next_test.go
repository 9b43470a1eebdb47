package scaffold

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	xmodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// published makes a proxy that has the module's packages for plugins, as version, and
// returns the environment that takes it from there.
func published(t *testing.T, version string) []string {
	t.Helper()
	proxy, root := t.TempDir(), sdk(t)
	dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var files []zip.File
	for _, top := range []string{"go.mod", "LICENSE", "manifest", "sdk"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "node_modules":
				return filepath.SkipDir
			case d.Type().IsRegular() && !strings.HasSuffix(name, "_test.go"):
				files = append(files, member{root, name})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.Create(w, xmodule.Version{Path: module, Version: version}, files); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".mod": string(mod), ".info": `{"Version":"` + version + `"}`} {
		if err := os.WriteFile(filepath.Join(dir, version+name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	env := func(name string) string {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	// What else is needed is there since this test was built, or is got the ordinary way.
	return []string{
		"GOPROXY=file://" + proxy + ",file://" + env("GOMODCACHE") + "/cache/download," + env("GOPROXY"),
		"GONOSUMDB=" + module, "GOMODCACHE=" + t.TempDir(), "GOFLAGS=-modcacherw",
	}
}

// member is a file of a module.
type member struct{ root, name string }

func (m member) Path() string {
	rel, _ := filepath.Rel(m.root, m.name) // it was found below root
	return filepath.ToSlash(rel)
}
func (m member) Lstat() (fs.FileInfo, error)  { return os.Lstat(m.name) }
func (m member) Open() (io.ReadCloser, error) { return os.Open(m.name) }

// What the command prints works as it stands, also where names have spaces and for
// whoever has no sources.
func TestNext(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: it builds the program and plugins")
	}
	caisson, opa := filepath.Join(t.TempDir(), "the program"), filepath.Join(t.TempDir(), "opa")
	run(t, sdk(t), nil, "go", "build", "-o", caisson, "./host/cmd/caisson")
	run(t, filepath.Join(sdk(t), "runtimes/wasm/bench/compare"), nil, "go", "build", "-o", opa, "github.com/open-policy-agent/opa")
	spaced := filepath.Join(t.TempDir(), "it's Caisson")
	if err := os.Symlink(sdk(t), spaced); err != nil {
		t.Fatal(err)
	}
	const version, fewer = "v1.2.3", "VERIFY=--calls 40000"
	for name, c := range map[string]struct {
		project Project
		env     []string
	}{
		"sources":   {Project{Kind: "policy", SDK: spaced}, []string{fewer}},
		"published": {Project{Kind: "policy", Version: version}, append(published(t, version), fewer)},
		"rego":      {Project{Kind: "policy", Lang: "rego"}, []string{"OPA=" + opa, fewer}},
		"language":  {Project{Kind: "language", SDK: spaced}, []string{fewer}},
		"backend":   {Project{Kind: "backend", SDK: spaced}, nil}, // the whole kit
	} {
		t.Run(name, func(t *testing.T) {
			p := c.project
			p.Name, p.Dir = "my-plugin", filepath.Join(t.TempDir(), "my plugin's")
			if _, err := Write(p); err != nil {
				t.Fatal(err)
			}
			run(t, t.TempDir(), c.env, "sh", "-c", p.Next(caisson))
		})
	}
}

func TestNextLines(t *testing.T) {
	for _, c := range []struct {
		p             Project
		caisson, want string
	}{
		{Project{Kind: "policy", Dir: "a", SDK: "/s"}, "", "cd a && make test verify"},
		{Project{Kind: "policy", Dir: "a"}, "", "cd a && make test verify"},
		{Project{Kind: "language", Lang: "go", Dir: "a"}, "", "cd a && make test verify"},
		{Project{Kind: "backend", Dir: "a", SDK: "/s"}, "", "cd a && make test verify"},
		{Project{Kind: "policy", Lang: "rego", Dir: "a"}, "", "cd a && make test verify"},
		{Project{Kind: "policy", Lang: "assemblyscript", Dir: "/x/a b"}, "/y/it's", `cd '/x/a b' && make test verify CAISSON='/y/it'\''s'`},
	} {
		if got := c.p.Next(c.caisson); got != c.want {
			t.Errorf("%+v: %s, want %s", c.p, got, c.want)
		}
	}
}

// A go.mod names directories of any name, and the SDK builds with the Go that it asks for.
func TestGoMod(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(sdk(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := modfile.Parse("go.mod", text, nil)
	if err != nil || own.Go.Version != goVersion {
		t.Errorf("the SDK wants Go %s, projects get %s: %v", own.Go.Version, goVersion, err)
	}
	for _, version := range []string{"", "v1.2", "v2.0.0", "v1.2.3+dirty", "main"} {
		if err := (Project{Kind: "policy", Name: "a", Version: version}).addGo(map[string][]byte{}); err == nil {
			t.Errorf("%q is taken for a version", version)
		}
	}
	dir := filepath.Join(t.TempDir(), "a b // c")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	if err := (Project{Kind: "policy", Name: "a", SDK: dir}).addGo(all); err != nil {
		t.Fatal(err)
	}
	got, err := modfile.Parse("go.mod", all["go.mod"], nil)
	if err != nil || len(got.Replace) != 1 || got.Replace[0].New.Path != filepath.Clean(dir) {
		t.Errorf("%s %v", all["go.mod"], err)
	}
}
