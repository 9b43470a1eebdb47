package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/cmd/caisson/internal/datadir"
	"github.com/caisson-run/caisson/host/config"
	"github.com/caisson-run/caisson/sdk/backend"
)

// A deployment that lets nobody in is not well, unless serve --dev does.
func TestDoctorAdmission(t *testing.T) {
	makeKey := func(t *testing.T, data string) {
		d, err := datadir.Open(data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.DevKey(); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		data       func(t *testing.T, data string)
		want       verdict // of "admission"; empty where there is no such check
		says       string
	}{
		{name: "nothing", want: problem, says: "set CODE_EXEC_API_KEY, or serve with --dev"},
		{name: "a file that leaves the keys alone", file: "drain: 1s\n", want: problem, says: "set CODE_EXEC_API_KEY, or serve with --dev"},
		{name: "a key", env: map[string]string{config.KeyVariable: "sixteen-bytes-or-more"}},
		{name: "a development key", data: makeKey, want: note, says: "serve --dev lets the key in"},
		{name: "a damaged development key", want: problem, says: "is damaged", data: func(t *testing.T, data string) {
			if err := os.WriteFile(filepath.Join(data, datadir.DevKeyFile), []byte("x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "no keys wanted", file: "admission: {service_keys: []}\n", data: makeKey, want: problem, says: "configure a service key or an issuer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := config.Parse("f", []byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			f.Data = t.TempDir()
			if tt.data != nil {
				tt.data(t, f.Data)
			}
			a := &app{Env: Env{LookupEnv: func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }}}
			var r report
			a.checkAdmission(&r, settings{File: f})
			var got verdict
			for _, c := range r.Checks {
				if c.Name != "admission" {
					if c.State == problem {
						t.Errorf("%+v", c)
					}
					continue
				}
				got = c.State
				if !strings.Contains(c.Detail+" "+c.Fix, tt.says) {
					t.Errorf("%+v, want it to say %q", c, tt.says)
				}
				if strings.Contains(c.Detail, "caisson-dev-") {
					t.Errorf("the key is told: %s", c.Detail)
				}
			}
			if got != tt.want {
				t.Errorf("admission is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPluginFix(t *testing.T) {
	for _, tt := range []struct {
		p    host.PluginStatus
		want string
	}{
		{host.PluginStatus{}, "build it (make build), or install it in one of: /a, /b"},
		{host.PluginStatus{Dir: "/a/x"}, "install it again; in the source tree: make -B build"},
		{host.PluginStatus{Dir: "/a/x", Fix: "run chmod +x /a/x/x"}, "run chmod +x /a/x/x"},
	} {
		if got := pluginFix(tt.p, []string{"/a", "/b"}); got != tt.want {
			t.Errorf("pluginFix(%+v) = %q, want %q", tt.p, got, tt.want)
		}
	}
}

// Every backend says for itself what it runs.
func TestPrintLanguagesOfEveryBackend(t *testing.T) {
	r := report{Backends: []backendReport{
		{ID: "small", Plugin: "boxes", Default: true, State: fine, Detail: "ready", Probe: "image a", Languages: []languageReport{
			{ID: "py", Name: "Python", Toolchain: "cpython", Version: "3.11.2"},
			{ID: "rs", Name: "Rust", Missing: "not in the image"},
		}},
		{ID: "large", Plugin: "boxes", State: fine, Detail: "ready", Languages: []languageReport{
			{ID: "rs", Name: "Rust", Toolchain: "rustc", Version: "1.63.0"},
		}},
		{ID: "broken", Plugin: "boxes", State: problem, Detail: "no engine"},
	}}
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(` {2,}`).ReplaceAllString(out.String(), " | ")
	for _, want := range []string{
		"small (default) | boxes | ok | ready\n | image a\n",
		"LANGUAGE | NAME | RUNS ON small | WHY NOT\npy | Python | cpython 3.11.2 | -\nrs | Rust | - | not in the image\n",
		"LANGUAGE | NAME | RUNS ON large | WHY NOT\nrs | Rust | rustc 1.63.0 | -\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "RUNS ON broken") {
		t.Errorf("a table of nothing:\n%s", got)
	}
}

func TestCPUText(t *testing.T) {
	const all = 1 << 50
	for _, tt := range []struct {
		l    backend.Limits
		want string
	}{
		{backend.Limits{CPU: time.Second, Wall: time.Minute, CPUs: 1}, "1s"},
		{backend.Limits{Wall: 30 * time.Second, CPUs: 1.5}, "45s (wall × cpus)"},
		{backend.Limits{CPU: all, Wall: time.Minute, CPUs: 2}, "2m0s (wall × cpus)"},
		{backend.Limits{CPU: all, Wall: all, CPUs: 2}, leftToBackend},
		{backend.Limits{Wall: time.Minute, CPUs: all}, leftToBackend},
		{backend.Limits{}, leftToBackend},
	} {
		if got := cpuText(tt.l, all); got != tt.want {
			t.Errorf("cpuText(%+v) = %q, want %q", tt.l, got, tt.want)
		}
	}
}
