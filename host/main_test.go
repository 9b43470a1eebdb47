package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/caisson-run/caisson/host/identity"
	"github.com/caisson-run/caisson/sdk/backend"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
)

// The test binary is its own plugin: a host tells every plugin where to keep
// things, so that variable says which of the two this process is.
func TestMain(m *testing.M) {
	if dir := os.Getenv(backend.EnvData); dir != "" {
		backend.Serve(func(context.Context, hclog.Logger) (backend.Backend, error) { return newPlugin(dir) })
		return
	}
	if f := os.Getenv(doomedEnv); f != "" {
		doomedHost(f)
		return
	}
	goleak.VerifyTestMain(m)
}

// plugin is a backend that does what its data directory says and notes there
// what was asked of it. Methods the tests do not call are left to panic.
type plugin struct {
	backend.Backend
	dir    string
	script script
}

// script is what a test wants of the plugin.
type script struct {
	Fail         string               `json:"fail,omitempty"`
	Name         string               `json:"name,omitempty"`
	Version      string               `json:"version,omitempty"`
	Capabilities []backend.Capability `json:"capabilities,omitempty"`
	StateSchema  []string             `json:"state_schema,omitempty"`
	RefuseConfig bool                 `json:"refuse_config,omitempty"`
	NotReady     string               `json:"not_ready,omitempty"`
	NoSandbox    string               `json:"no_sandbox,omitempty"` // what Probe says is wrong
	Broken       bool                 `json:"broken,omitempty"`     // Get fails
	Keeps        bool                 `json:"keeps,omitempty"`      // it is a keeper
	ShowsAll     bool                 `json:"shows_all,omitempty"`  // also what it does not serve
}

func newPlugin(dir string) (backend.Backend, error) {
	p := plugin{dir: dir, script: script{Name: "fake", Version: "1.2.3"}}
	// What lies beside the program is about one version of it.
	for _, d := range []string{dir, filepath.Dir(os.Args[0])} {
		if b, err := os.ReadFile(filepath.Join(d, "script.json")); err == nil {
			if err := json.Unmarshal(b, &p.script); err != nil {
				return nil, err
			}
		}
	}
	if p.script.Fail != "" {
		return nil, errors.New(p.script.Fail)
	}
	if p.script.Keeps {
		return keeper{plugin: p}, nil
	}
	return p, nil
}

func (p plugin) Info(context.Context) (backend.Info, error) {
	return backend.Info{Name: p.script.Name, Version: p.script.Version, Capabilities: p.script.Capabilities, StateSchema: p.script.StateSchema}, nil
}

// Health notes who asks, if they say so.
func (p plugin) Health(ctx context.Context) (backend.Health, error) {
	if id := backend.RequestID(ctx); id != "" {
		f, err := os.OpenFile(filepath.Join(p.dir, "asked-"+id), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err == nil {
			_, err = f.WriteString("x")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return backend.Health{}, err
		}
	}
	return backend.Health{Ready: p.script.NotReady == "", Reason: p.script.NotReady}, nil
}

func (p plugin) OpenConfig(ctx context.Context, id string, config json.RawMessage) error {
	if _, err := os.Stat(filepath.Join(p.dir, "hang")); err == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	if p.script.RefuseConfig {
		return backend.Errorf(backend.KindInvalidRequest, "OpenConfig", "no such region")
	}
	return os.WriteFile(filepath.Join(p.dir, "config-"+id), config, 0o600)
}

// Probe tells what the process sees of an environment.
func (p plugin) Probe(context.Context, json.RawMessage) (backend.ProbeReport, error) {
	if p.script.NoSandbox != "" {
		return backend.ProbeReport{Detail: p.script.NoSandbox}, nil
	}
	return backend.ProbeReport{OK: true, Detail: fmt.Sprint(os.Environ())}, nil
}

// Get tells which version answers, as a label.
func (p plugin) Get(_ context.Context, ref backend.Ref) (backend.Sandbox, error) {
	if p.script.Broken {
		return backend.Sandbox{}, backend.Errorf(backend.KindInternal, "Get", "it is broken")
	}
	labels := map[string]string{"version": p.script.Version}
	return backend.Sandbox{Ref: ref, State: backend.StateRunning, Metadata: backend.Metadata{Labels: labels}}, nil
}

// Delete ends the process, as a crash would.
func (p plugin) Delete(context.Context, backend.Ref) error {
	os.Exit(3)
	return nil
}

// fixture is a directory of plugins and one of data.
type fixture struct {
	t       *testing.T
	plugins string
	data    string
}

func newFixture(t *testing.T) *fixture {
	return &fixture{t: t, plugins: t.TempDir(), data: t.TempDir()}
}

const fakeManifest = `schema: 1
name: fake
version: 1.2.3
kind: backend
runtime: process
protocol: [1]
path: fake
env: [FAKE_VISIBLE]
capabilities: [list]
state_schema: ["7"]
config:
  type: object
  properties:
    region: {type: string, default: eu}
`

// install puts a plugin there: a manifest and, unless binary is nil, its file.
func (f *fixture) install(dir, manifest string, binary []byte, mode os.FileMode) {
	f.t.Helper()
	d := filepath.Join(f.plugins, dir)
	if err := os.MkdirAll(d, 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d, "plugin.yaml"), []byte(manifest), 0o644); err != nil {
		f.t.Fatal(err)
	}
	if binary != nil {
		if err := os.WriteFile(filepath.Join(d, "fake"), binary, mode); err != nil {
			f.t.Fatal(err)
		}
	}
}

// testBinary is this very program, read once: it is large.
var testBinary = sync.OnceValues(func() ([]byte, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(exe)
})

func self(t *testing.T) []byte {
	t.Helper()
	b, err := testBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// installFake installs the test binary as plugin "fake".
func (f *fixture) installFake() { f.install("fake", fakeManifest, self(f.t), 0o755) }

// instruct says what the plugin shall do from its next start on.
func (f *fixture) instruct(s script) {
	f.t.Helper()
	dir := filepath.Join(f.data, "plugins", "fake")
	b, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "script.json"), b, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) options() Options {
	f.t.Helper()
	keys, err := identity.NewKeys([]byte("a deployment secret of the tests"))
	if err != nil {
		f.t.Fatal(err)
	}
	return Options{
		PluginDirs: []string{f.plugins}, DataDir: f.data, Keys: keys,
		Config: Config{Backends: []BackendConfig{{Plugin: "fake"}}},
	}
}

// open opens a host that is closed when the test ends.
func (f *fixture) open() *Host { return f.openWith(f.options()) }

func (f *fixture) openWith(o Options) *Host {
	f.t.Helper()
	h, err := Open(f.t.Context(), o)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			f.t.Error("close:", err)
		}
	})
	return h
}
