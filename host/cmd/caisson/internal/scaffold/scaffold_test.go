package scaffold

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/host"
)

// sdk is the root of this module.
func sdk(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, p Project) string {
	t.Helper()
	p.Name, p.Dir, p.SDK = "my-plugin", filepath.Join(t.TempDir(), "my-plugin"), sdk(t)
	files, err := Write(p)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(files, "plugin.yaml") || !slices.Contains(files, "Makefile") {
		t.Errorf("%q", files)
	}
	return p.Dir
}

// run runs a command in a project.
func run(t *testing.T, dir string, env []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append([]string{"GOFLAGS=", "CGO_ENABLED=0", "GOWORK=off"}, env...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// verify is what make verify does, in fewer calls.
func verify(t *testing.T, dir string) {
	t.Helper()
	dist := filepath.Join(dir, "dist")
	if d := host.Lint(t.Context(), dist, host.Trust{}); d.State == host.PluginError {
		t.Fatalf("lint: %s", d.Cause)
	}
	checks, err := host.VerifyModule(t.Context(), dist, host.VerifyOptions{Calls: 40_000})
	if err != nil {
		t.Fatal(err)
	}
	if last := checks[len(checks)-1]; len(checks) != 6 || !last.OK {
		t.Errorf("verify: %+v", checks)
	}
}

func TestModules(t *testing.T) {
	projects := []Project{{Kind: "policy"}, {Kind: "language"}}
	if testing.Short() {
		projects = projects[:1]
	}
	for _, p := range projects {
		t.Run(p.Kind, func(t *testing.T) {
			dir := write(t, p)
			run(t, dir, nil, "make", "test", "build")
			verify(t, dir)
		})
	}
}

func TestAssemblyScript(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CAISSON_CI") != "" {
			t.Fatal("npm is missing")
		}
		t.Skip("SKIP: npm is missing")
	}
	dir := write(t, Project{Kind: "policy", Lang: "assemblyscript"})
	run(t, dir, nil, "make", "build")
	verify(t, dir)
}

// What projects build with is what tests build with: TestNext builds one, and
// runtimes/wasm/bench/compare looks at what it decides.
func TestRego(t *testing.T) {
	dir := write(t, Project{Kind: "policy", Lang: "rego"})
	text, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil || !strings.Contains(string(text), "opa@"+opaVersion+"\n") {
		t.Errorf("%s %v", text, err)
	}
	mod, err := os.ReadFile(filepath.Join(sdk(t), "runtimes/wasm/bench/compare/go.mod"))
	if err != nil || !strings.Contains(string(mod), "open-policy-agent/opa "+opaVersion+"\n") {
		t.Errorf("the opa that tests build with is not %s: %v", opaVersion, err)
	}
}

// A backend builds and starts as what its manifest says. The kit is run by the tests of
// the reference backend, which it is a copy of.
func TestBackend(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIP: it builds a program with its libraries")
	}
	dir := write(t, Project{Kind: "backend"})
	run(t, dir, nil, "make", "test", "build")
	if d := host.Lint(t.Context(), filepath.Join(dir, "dist"), host.Trust{}); d.State == host.PluginError {
		t.Errorf("%+v", d)
	}
	trial, err := host.TryBackend(t.Context(), filepath.Join(dir, "dist"), host.TrialOptions{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if trial.Info.Name != "my-plugin" {
		t.Errorf("%+v", trial.Info)
	}
	if err := trial.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	there := t.TempDir()
	for _, c := range []struct {
		p    Project
		want string
	}{
		{Project{Kind: "entry", Name: "a"}, `"entry" is no kind of plugin`},
		{Project{Kind: "policy", Name: "a", Lang: "cobol"}, "want go, assemblyscript, rego"},
		{Project{Kind: "backend", Name: "a", Lang: "rego"}, "want go"},
		{Project{Kind: "policy", Name: "A b", SDK: sdk(t)}, "name: must be a lower-case letter"},
		{Project{Kind: "policy", Name: "../a", SDK: sdk(t)}, "name: must be a lower-case letter"},
		{Project{Kind: "policy", Name: "a\nkind: backend", SDK: sdk(t)}, "plugin.yaml"},
		{Project{Kind: "policy", Name: "a", Version: "(devel)"}, "name a directory with its sources by --sdk"},
		{Project{Kind: "policy", Name: "a", SDK: there}, "the SDK"},
		{Project{Kind: "backend", Name: "a", Version: "v1.2.3"}, "by --sdk"},
		{Project{Kind: "policy", Name: "a", SDK: sdk(t), Dir: there}, "is there already"},
	} {
		if c.p.Dir == "" {
			c.p.Dir = filepath.Join(t.TempDir(), "x")
		}
		files, err := Write(c.p)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v %v", c.p, files, err)
		}
		if _, err := os.Stat(c.p.Dir); c.p.Dir != there && err == nil {
			t.Errorf("%+v: left a directory", c.p)
		}
	}
	p := Project{Kind: "policy", Name: "a", Version: "v1.2.3", Dir: filepath.Join(t.TempDir(), "a")}
	if _, err := Write(p); err != nil {
		t.Fatal(err)
	}
	if mod, err := os.ReadFile(filepath.Join(p.Dir, "go.mod")); err != nil || !strings.Contains(string(mod), "\nrequire github.com/caisson-run/caisson v1.2.3\n") {
		t.Errorf("%s %v", mod, err)
	}
}
