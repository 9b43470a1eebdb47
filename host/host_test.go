package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/runtimes/process/supervise"
	"github.com/caisson-run/caisson/sdk/backend"
)

func TestOpenStartsConfiguresAndStops(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	f.instruct(script{Name: "fake", Version: "1.2.3", Capabilities: []backend.Capability{"list"}, StateSchema: []string{"7"}})
	h, err := Open(t.Context(), f.options())
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(f.data, "plugins", "fake", "config-fake"))
	if err != nil || string(config) != `{"region":"eu"}` {
		t.Errorf("config = %s, %v; want the schema's defaults", config, err)
	}
	target, err := h.Target(t.Context(), "fake")
	if err != nil {
		t.Fatal(err)
	}
	if !target.Info.Has(backend.CapList) || target.Config != "fake" {
		t.Errorf("target = %+v", target)
	}
	target.Release()
	target.Release() // twice is once
	if st := h.Plugins(); len(st) != 1 || st[0].State != PluginReady {
		t.Errorf("plugins = %+v", st)
	}
	sockets := h.sockets.dir
	for range 2 {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(sockets); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket directory is still there: %v", err)
	}
	if _, err := h.Target(t.Context(), "fake"); backend.KindOf(err) != backend.KindUnavailable {
		t.Errorf("Target after Close = %v, want unavailable", err)
	}
}

func TestPluginSeesNothingOfTheEnvironment(t *testing.T) {
	t.Setenv("FAKE_VISIBLE", "yes")
	t.Setenv("FAKE_SECRET", "never")
	f := newFixture(t)
	f.installFake()
	target, err := f.open().Target(t.Context(), "fake")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Release()
	report, err := target.Backend.Probe(t.Context(), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FAKE_VISIBLE=yes", backend.EnvData + "=" + f.data, backend.EnvCache + "=" + f.data} {
		if !strings.Contains(report.Detail, want) {
			t.Errorf("%q is not in the plugin's environment %s", want, report.Detail)
		}
	}
	for _, no := range []string{"FAKE_SECRET", "PATH=", "HOME="} {
		if strings.Contains(report.Detail, no) {
			t.Errorf("%q reached the plugin: %s", no, report.Detail)
		}
	}
}

func TestOpenRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(f *fixture, o *Options)
		want  string
	}{
		{"not installed", func(f *fixture, o *Options) {}, `no backend plugin "fake" is installed`},
		{"binary missing", func(f *fixture, o *Options) { f.install("fake", fakeManifest, nil, 0) }, "no such file"},
		{"not executable", func(f *fixture, o *Options) { f.install("fake", fakeManifest, self(f.t), 0o644) }, "execut"},
		{"not a program", func(f *fixture, o *Options) { f.install("fake", fakeManifest, []byte("hello"), 0o755) }, "fake"},
		{"wrong digest", func(f *fixture, o *Options) {
			f.install("fake", fakeManifest+"sha256: "+strings.Repeat("a", 64)+"\n", self(f.t), 0o755)
		}, "not the pinned " + strings.Repeat("a", 64)},
		{"no digest in strict mode", func(f *fixture, o *Options) { f.installFake(); o.Trust.StrictDigests = true }, "sha256"},
		{"unreadable manifest", func(f *fixture, o *Options) { f.install("fake", "schema: 1\nnmae: fake\n", nil, 0) }, "nmae"},
		{"of another kind", func(f *fixture, o *Options) {
			f.install("fake", "schema: 1\nname: fake\nversion: 1.0.0\nkind: policy\nruntime: wasm\nprotocol: 1\npath: p.wasm\n", nil, 0)
		}, "is a policy plugin"},
		{"newer protocol", func(f *fixture, o *Options) {
			f.install("fake", strings.Replace(fakeManifest, "protocol: [1]", "protocol: [9]", 1), self(f.t), 0o755)
		}, "9"},
		{"bad config", func(f *fixture, o *Options) { f.installFake(); o.Config.Backends[0].Config = []byte(`{"region":1}`) }, "region"},
		{"unknown config key", func(f *fixture, o *Options) { f.installFake(); o.Config.Backends[0].Config = []byte(`{"reigon":"x"}`) }, "reigon"},
		{"start fails", func(f *fixture, o *Options) { f.installFake(); f.instruct(script{Fail: "no such daemon"}) }, "no such daemon"},
		{"another name", func(f *fixture, o *Options) { f.installFake(); f.instruct(script{Name: "liar", Version: "1.2.3"}) }, `"liar"`},
		{"another version", func(f *fixture, o *Options) { f.installFake(); f.instruct(script{Name: "fake", Version: "6.6.6"}) }, "6.6.6"},
		{"more capabilities", func(f *fixture, o *Options) {
			f.installFake()
			f.instruct(script{Name: "fake", Version: "1.2.3", Capabilities: []backend.Capability{"names"}})
		}, `"names"`},
		{"another state schema", func(f *fixture, o *Options) {
			f.installFake()
			f.instruct(script{Name: "fake", Version: "1.2.3", StateSchema: []string{"8"}})
		}, `"8"`},
		{"config refused by the plugin", func(f *fixture, o *Options) {
			f.installFake()
			f.instruct(script{Name: "fake", Version: "1.2.3", RefuseConfig: true})
		}, "no such region"},
		{"no data directory", func(f *fixture, o *Options) { f.installFake(); o.DataDir = filepath.Join(f.data, "absent") }, "data directory"},
		{"no keys", func(f *fixture, o *Options) { f.installFake(); o.Keys = nil }, "keys"},
		{"a policy that is not there", func(f *fixture, o *Options) {
			f.installFake()
			o.Config.Policies = []PolicyConfig{{Plugin: "limits"}}
		}, `no policy plugin "limits"`},
		{"a table that is not there", func(f *fixture, o *Options) { f.installFake(); o.Config.Languages = []string{"fake"} }, "is a backend plugin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			tmp, err := os.MkdirTemp("", "") // short: sockets go there
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(tmp) })
			t.Setenv("TMPDIR", tmp)
			o := f.options()
			c.setup(f, &o)
			h, err := Open(t.Context(), o)
			if err == nil {
				h.Close(context.Background())
				t.Fatal("Open succeeded")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v\nwant it to say %q", err, c.want)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestCrashedPluginIsStartedAgain(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	h := f.open()
	target, err := h.Target(t.Context(), "fake")
	if err != nil {
		t.Fatal(err)
	}
	first, err := h.backends.line("fake").program().sup.Unit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Backend.Delete(t.Context(), backend.Ref{Config: "fake", ID: "x"}); backend.KindOf(err) != backend.KindUnavailable {
		t.Errorf("the call in flight = %v, want unavailable", err)
	}
	target.Release()
	for first.Serving() {
		runtime.Gosched()
	}
	// Everybody who needs it waits for one start.
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			target, err := h.Target(t.Context(), "fake")
			if err != nil {
				t.Error(err)
				return
			}
			defer target.Release()
			if _, err := target.Backend.Health(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestFailedStartIsRepeatedWithPauses(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	o := f.options()
	o.supervision = supervise.Settings{MinPause: 10 * time.Millisecond}
	o.Config.Backends = append(o.Config.Backends, BackendConfig{ID: "other", Plugin: "broken"})
	f.install("broken", strings.Replace(fakeManifest, "name: fake", "name: broken", 1), []byte("#!/bin/false\n"), 0o755)
	h, err := Open(t.Context(), o) // the default works, so the host opens
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	if p := status(h, "broken"); p.State == PluginReady || !strings.Contains(p.Cause, "exited with status 1") {
		t.Errorf("status = %+v", p)
	}
	// It is quarantined in the end, and calls are refused at once, with the cause.
	l := h.backends.line("broken")
	for l.program().sup.View().State != supervise.Quarantined {
		time.Sleep(10 * time.Millisecond)
	}
	_, err = h.Target(t.Context(), "other")
	var be *backend.Error
	if !errors.As(err, &be) || be.Kind != backend.KindUnavailable || !strings.Contains(err.Error(), "exited with status 1") {
		t.Fatalf("err = %v, want unavailable with the cause", err)
	}
	if p := status(h, "broken"); p.State != PluginQuarantined || !strings.Contains(p.Fix, "reset broken") {
		t.Errorf("status = %+v", p)
	}
	// Repaired and reset, it serves.
	manifest := strings.Replace(fakeManifest, "name: fake", "name: broken", 1)
	f.install("broken", manifest, self(t), 0o755)
	dir := filepath.Join(f.data, "plugins", "broken")
	if err := os.WriteFile(filepath.Join(dir, "script.json"), []byte(`{"name":"broken","version":"1.2.3"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.ResetPlugin("broken"); err != nil {
		t.Fatal(err)
	}
	target, err := h.Target(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	target.Release()
	if err := h.ResetPlugin("absent"); err == nil {
		t.Error("an absent plugin was reset")
	}
}

func status(h *Host, name string) PluginStatus {
	for _, p := range h.Plugins() {
		if p.Name == name {
			return p
		}
	}
	return PluginStatus{}
}

func TestTenantsConfigs(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	o := f.options()
	o.Config.Backends = []BackendConfig{{ID: "shared", Plugin: "fake"}, {ID: "private", Plugin: "fake", Tenant: "acme"}}
	h, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	for tenant, want := range map[string]string{"acme": "shared private", "evil": "shared", "": "shared private"} {
		if got := strings.Join(h.backends.Configs(tenant), " "); got != want {
			t.Errorf("Configs(%q) = %q, want %q", tenant, got, want)
		}
	}
	if _, err := h.backends.Named(t.Context(), "evil", "private"); !errors.Is(err, session.ErrConfigNotFound) {
		t.Errorf("another tenant's config: %v, want not found", err)
	}
	if _, err := h.backends.Named(t.Context(), "evil", "absent"); !errors.Is(err, session.ErrConfigNotFound) {
		t.Errorf("an absent config: %v, want not found", err)
	}
}

func TestReady(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	f.instruct(script{Name: "fake", Version: "1.2.3", NotReady: "compiling"})
	h := f.open()
	if err := h.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "compiling") {
		t.Errorf("Ready = %v, want the plugin's reason", err)
	}
}

func TestCloseWaitsForCallsInFlight(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	h, err := Open(t.Context(), f.options())
	if err != nil {
		t.Fatal(err)
	}
	target, err := h.Target(t.Context(), "fake")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- h.Close(context.Background()) }()
	for h.backends.line("fake").program() != nil {
		runtime.Gosched()
	}
	if _, err := target.Backend.Health(t.Context()); err != nil {
		t.Errorf("a call in flight was cut off: %v", err)
	}
	target.Release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestDiscover(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	f.install("zz-again", fakeManifest, nil, 0)
	f.install("broken", "schema: 99\n", nil, 0)
	if err := os.WriteFile(filepath.Join(f.plugins, "README"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.plugins, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	all, err := Discover(t.Context(), []string{f.plugins, filepath.Join(f.plugins, "absent")}, Trust{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]PluginState{}
	for i, s := range all {
		got[strconv.Itoa(i)+s.Name] = s.State
		if (s.Cause == "") != (s.State == PluginUnused) {
			t.Errorf("%s: state %s with cause %q", s.Name, s.State, s.Cause)
		}
	}
	want := map[string]PluginState{"0broken": PluginError, "1fake": PluginUnused, "2fake": PluginSkipped}
	if len(got) != len(want) {
		t.Errorf("found %v, want %v", got, want)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
}
