package config_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/manifest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update to accept):\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}

func TestFullExample(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse("full.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	// The example claims to hold every key: no member may be left at zero.
	everyMemberSet(t, "", reflect.ValueOf(f))
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "full.golden.json", string(b)+"\n")
}

// The examples that documents show are configurations that a server takes, plugins'
// own parts included.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("../../docs/examples/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, path := range paths {
		if filepath.Base(path) == manifest.FileName {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := config.Parse(path, data)
		if err != nil {
			t.Error(err)
			continue
		}
		checked++
		for _, b := range f.Backends {
			members := map[string]any{}
			if len(b.Config) > 0 {
				if err := json.Unmarshal(b.Config, &members); err != nil {
					t.Fatal(err)
				}
			}
			for name := range b.Secrets {
				members[name] = "what is in the file or variable"
			}
			whole, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join("../../plugins", b.Plugin, manifest.FileName))
			if err != nil {
				t.Fatal(err)
			}
			m, err := manifest.Parse(manifest.FileName, text)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.CompleteConfig(whole); err != nil {
				t.Errorf("%s: backend %s: %v", path, b.ID, err)
			}
		}
	}
	if checked == 0 {
		t.Error("there are no examples")
	}
}

// everyMemberSet fails for each struct member that no element sets.
func everyMemberSet(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			t.Errorf("%s is not in the example", path)
			return
		}
		everyMemberSet(t, path, v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[config.Secret]() { // in one of two places
			if v.IsZero() {
				t.Errorf("%s is not in the example", path)
			}
			return
		}
		for i := range v.NumField() {
			everyMemberSet(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		if v.Len() == 0 {
			t.Errorf("%s is not in the example", path)
			return
		}
		if v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		for i := range v.Type().Elem().NumField() { // some element must set it
			set := false
			for j := range v.Len() {
				set = set || !v.Index(j).Field(i).IsZero()
			}
			if !set {
				t.Errorf("%s[].%s is not in the example", path, v.Type().Elem().Field(i).Name)
			}
		}
	default:
		if v.IsZero() {
			t.Errorf("%s is not in the example", path)
		}
	}
}

func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad examples (%v)", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.Parse(filepath.Base(file), data)
			var ce *config.Error
			if !errors.As(err, &ce) {
				t.Fatalf("Parse = %v, want a *config.Error", err)
			}
			if ce.Line < 1 || ce.Column < 1 {
				t.Errorf("no place in %v", err)
			}
			golden(t, "bad/"+name+".golden", err.Error()+"\n")
		})
	}
}

func TestDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n", "policies:\n", "plugins: {}\n"} {
		f, err := config.Parse("f", []byte(text))
		if err != nil {
			t.Fatalf("Parse(%q): %v", text, err)
		}
		if !reflect.DeepEqual(f, config.Default()) {
			t.Errorf("Parse(%q) = %+v, want the defaults", text, f)
		}
	}
	f, err := config.Parse("f", []byte("policies: []\nlanguages: []\nadmission: {service_keys: []}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Policies)+len(f.Languages)+len(f.Admission.ServiceKeys) != 0 {
		t.Errorf("an empty list did not replace the default: %+v", f)
	}
}

// A file that says nothing means the defaults, and whoever reads it again may doubt it.
func TestBlank(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "\n \n": true, "# nothing\n": true, "---\n": true, "---\n# x\n": true,
		"{}": false, "policies:\n": false, "drain: 7s\n": false, "# why\ndrain: 7s\n": false,
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, blank, err := config.Read(path); err != nil || blank != want {
			t.Errorf("%q: blank %v, %v", text, blank, err)
		}
	}
}

func TestLoadResolvesPaths(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	text := `
data: d
plugins: {dirs: [p, /abs]}
backends: [{id: a, plugin: x, secrets: {k: {file: s}}}]
admission: {service_keys: [{id: a, key_file: f}]}
billing: {path: l.db}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{f.Data, f.Plugins.Dirs[0], f.Plugins.Dirs[1], f.Backends[0].Secrets["k"].File, f.Admission.ServiceKeys[0].KeyFile, f.Billing.Path}
	want := []string{dir + "/d", dir + "/p", "/abs", dir + "/s", dir + "/f", dir + "/l.db"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("paths = %q, want %q", got, want)
	}
	if _, err := config.Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Load of a missing file = %v, want ErrNotExist", err)
	}
}

func TestHost(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f, err := config.Parse("full.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("from file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Backends[1].Secrets["token"] = config.Secret{File: secret}
	env := map[string]string{"REMOTE_API_KEY": "from env"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	c, err := f.Host(lookup)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"api_key":"from env","region":{"name":"north","zones":[1,2]},"template":"base","token":"from file"}`
	if got := string(c.Backends[1].Config); got != want {
		t.Errorf("backend config = %s, want %s", got, want)
	}
	if c.Default != "wasm" || c.Limits.Wall != 30*time.Second || c.MaxLimits.MemoryBytes != 2<<30 || c.Clocks.UnusedUpload != 30*time.Minute {
		t.Errorf("host config = %+v", c)
	}
	delete(env, "REMOTE_API_KEY")
	if _, err := f.Host(lookup); !errors.Is(err, config.ErrUnset) || !strings.Contains(err.Error(), `"acme-remote"`) || !strings.Contains(err.Error(), "REMOTE_API_KEY") {
		t.Errorf("Host without the variable = %v, want ErrUnset naming backend and variable", err)
	}
}

func TestSecretFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	tests := []struct {
		name, path, want, fails string
	}{
		{"trimmed", write("a", " v \n", 0o600), "v", ""},
		{"readable by others is how orchestrators mount them", write("b", "v", 0o444), "v", ""},
		{"writable by others", write("c", "v", 0o666), "", "others may write"},
		{"empty", write("d", "\n", 0o600), "", "not set"},
		{"absent", filepath.Join(dir, "none"), "", "not set"},
		{"directory", dir, "", "regular file"},
		{"huge", write("e", strings.Repeat("x", 65<<10), 0o600), "", "larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := config.Secret{File: tt.path}.Read(nil)
			if got != tt.want || (err == nil) != (tt.fails == "") || (err != nil && !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("Read = %q, %v; want %q, error with %q", got, err, tt.want, tt.fails)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, name := range append(files, "testdata/full.yaml") {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("f", data)
		if err != nil {
			var ce *config.Error
			if !errors.As(err, &ce) || ce.Line < 1 || ce.Column < 1 {
				t.Fatalf("error without a place: %v", err)
			}
			return
		}
		// What is accepted satisfies what the rest of the program relies on.
		if len(c.Backends) == 0 || c.DefaultBackend == "" || c.Drain <= 0 {
			t.Fatalf("accepted an unusable configuration: %+v", c)
		}
	})
}
