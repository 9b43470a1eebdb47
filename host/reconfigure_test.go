package host

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// change is the configuration of the fixture with an edit.
func (f *fixture) change(edit func(*Config)) Config {
	c := f.options().Config
	edit(&c)
	return c
}

// calling calls the backend "fake" all the time, until stop.
func calling(t *testing.T, h *Host) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := serving(h); err != nil {
					t.Errorf("a call failed: %v", err)
					return
				}
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

func TestReconfigure(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	f.install("other", strings.Replace(fakeManifest, "name: fake", "name: other", 1), self(t), 0o755)
	other := filepath.Join(f.data, "plugins", "other")
	if err := errors.Join(os.MkdirAll(other, 0o700), os.WriteFile(filepath.Join(other, "script.json"), []byte(`{"name":"other","version":"1.2.3"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	h := f.open()
	stop := calling(t, h)
	apply := func(edit func(*Config), want ...string) {
		t.Helper()
		got, err := h.Reconfigure(t.Context(), f.change(edit))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("changes %q %v, want %q", got, err, want)
		}
	}
	content := func(plugin, config string) string {
		b, _ := os.ReadFile(filepath.Join(f.data, "plugins", plugin, "config-"+config))
		return string(b)
	}
	apply(func(*Config) {})
	apply(func(c *Config) {
		c.Backends[0].Config = json.RawMessage(`{"region":"us"}`)
		c.Backends = append(c.Backends, BackendConfig{ID: "second", Plugin: "fake"}, BackendConfig{ID: "third", Plugin: "other"})
		c.Default = "third"
	}, "backend plugin other: started", "default backend: third", "sandbox config fake: changed", "sandbox config second: new, on fake")
	if got := content("fake", "fake"); got != `{"region":"us"}` {
		t.Errorf("config of fake: %s", got)
	}
	if got := content("other", "third"); got != `{"region":"eu"}` {
		t.Errorf("config of third: %s", got)
	}
	for _, id := range []string{"fake", "second", "third"} {
		target, err := h.Target(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		target.Release()
	}
	if got := h.backends.Configs("")[0]; got != "third" {
		t.Errorf("the default is %q", got)
	}
	apply(func(c *Config) { c.Limits.Wall = 7 * time.Second },
		"backend plugin other: stops", "default backend: fake", "limits: changed", "sandbox config fake: changed", "sandbox config second: gone from fake")
	if _, err := h.Target(t.Context(), "second"); !errors.Is(err, session.ErrConfigNotFound) {
		t.Errorf("a config that is gone: %v", err)
	}
	if got := h.Limits(session.Target{}, backend.Limits{}).Wall; got != 7*time.Second {
		t.Errorf("wall %v", got)
	}
	stop()
}

// A process that is started after the change has the configs of the change.
func TestReconfiguredPluginStartsWithItsConfigs(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	h := f.open()
	if _, err := h.Reconfigure(t.Context(), f.change(func(c *Config) {
		c.Backends = append(c.Backends, BackendConfig{ID: "second", Plugin: "fake"})
	})); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.data, "plugins", "fake", "config-second")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	target, err := h.Target(t.Context(), "second")
	if err != nil {
		t.Fatal(err)
	}
	_ = target.Backend.Delete(t.Context(), backend.Ref{Config: "second", ID: "x"}) // it exits
	target.Release()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestReconfigureRefusesAsAWhole(t *testing.T) {
	f := newFixture(t)
	f.installFake()
	f.install("broken", strings.Replace(fakeManifest, "name: fake", "name: broken", 1), []byte("#!/bin/false\n"), 0o755)
	h := f.open()
	for name, c := range map[string]struct {
		edit func(*Config)
		want string
	}{
		"unknown plugin":   {func(c *Config) { c.Backends = append(c.Backends, BackendConfig{Plugin: "absent"}) }, `"absent"`},
		"config it is not": {func(c *Config) { c.Backends[0].Config = json.RawMessage(`{"region":7}`) }, "region"},
		"no default":       {func(c *Config) { c.Default = "absent" }, "absent"},
		"does not start":   {func(c *Config) { c.Backends = append(c.Backends, BackendConfig{Plugin: "broken"}) }, "status 1"},
		"absent policy": {func(c *Config) {
			c.Backends[0].Config = json.RawMessage(`{"region":"us"}`)
			c.Policies = []PolicyConfig{{Plugin: "absent"}}
		}, `"absent"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := h.Reconfigure(t.Context(), f.change(c.edit)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q %v, want an error that says %q", got, err, c.want)
			}
			if got := strings.Join(h.backends.Configs(""), " "); got != "fake" {
				t.Errorf("configs %q", got)
			}
			if b, _ := os.ReadFile(filepath.Join(f.data, "plugins", "fake", "config-fake")); string(b) != `{"region":"eu"}` {
				t.Errorf("config %s", b)
			}
			expectServing(t, h, "1.2.3")
		})
	}
}

// A plugin that answers its health checks and never opens a config holds a change up for
// as long as its start may take, and a host that closes not at all.
func TestReconfigureWaitsForNoPlugin(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		stop     func(h *Host)
		want     string
	}{
		"in its time":   {fakeManifest + "start_timeout: 3s\n", func(*Host) {}, "not done within 3s"},
		"while closing": {fakeManifest + "start_timeout: 5m\n", (*Host).StopChanges, "cancel"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.install("fake", c.manifest, self(t), 0o755)
			h := f.open()
			if err := os.WriteFile(filepath.Join(f.data, "plugins", "fake", "hang"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			failed := make(chan error, 1)
			go func() {
				_, err := h.Reconfigure(context.Background(), f.change(func(c *Config) { c.Backends[0].Config = json.RawMessage(`{"region":"us"}`) }))
				failed <- err
			}()
			for len(h.changing) == 0 {
				time.Sleep(time.Millisecond)
			}
			c.stop(h)
			if err := <-failed; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want it to say %q", err, c.want)
			}
			if len(h.changing) != 0 {
				t.Error("nothing else may change any more")
			}
			expectServing(t, h, "1.2.3")
		})
	}
}

// lateContext is one whose timer runs later than its deadline.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// What a plugin answers because the time is up is told as that, though the host's own
// timer has yet to run.
func TestTimeIsUpBeforeTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		up := errors.New("the time is up")
		ctx := lateContext{inner, time.Now().Add(time.Second)}
		if err := ended(ctx); err != nil {
			t.Errorf("before: %v", err)
		}
		time.Sleep(time.Second)
		time.AfterFunc(time.Millisecond, func() { cancel(up) })
		if err := ended(ctx); !errors.Is(err, up) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

func TestRediscoverSwapsWhatWasInstalled(t *testing.T) {
	f, h := openStateful(t)
	stop := calling(t, h)
	if r, err := h.Rediscover(t.Context(), SwapOptions{Watch: -1}); err != nil || len(r) != 0 {
		t.Errorf("%+v %v", r, err)
	}
	// Installed as an operator would: beside, then renamed.
	next, now := f.version("1.3.0", nil), filepath.Join(f.plugins, "fake")
	err := errors.Join(os.Rename(now, filepath.Join(f.data, "old")), os.CopyFS(now, os.DirFS(next)), os.Chmod(filepath.Join(now, "fake"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	f.install("new", strings.Replace(fakeManifest, "name: fake", "name: new", 1), self(t), 0o755)
	r, err := h.Rediscover(t.Context(), SwapOptions{Watch: -1})
	if err != nil || len(r) != 1 || r[0].Outcome != SwapDone || r[0].To.Version != "1.3.0" {
		t.Fatalf("%+v %v", r, err)
	}
	expectServing(t, h, "1.3.0")
	// What is swapped in from elsewhere stays, until another version is installed.
	rediscover := func(want ...string) {
		t.Helper()
		var took []string
		r, err := h.Rediscover(t.Context(), SwapOptions{Watch: -1})
		for _, one := range r {
			took = append(took, one.To.Version)
		}
		if err != nil || !slices.Equal(took, want) {
			t.Errorf("took %q, %v; want %q", took, err, want)
		}
	}
	install := func(version string) {
		t.Helper()
		next := f.version(version, nil)
		for _, name := range []string{"plugin.yaml", "script.json"} {
			if err := os.Rename(filepath.Join(next, name), filepath.Join(now, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere := f.version("2.0.0", nil)
	swap(t, h, SwapOptions{Dir: elsewhere, Watch: -1}, SwapDone)
	rediscover()
	expectServing(t, h, "2.0.0")
	install("3.0.0")
	rediscover("3.0.0")
	rediscover()
	expectServing(t, h, "3.0.0")
	swap(t, h, SwapOptions{Dir: elsewhere, Watch: -1}, SwapDone)
	rediscover()
	install("2.0.0") // to keep what was tried
	rediscover()
	install("4.0.0")
	rediscover("4.0.0")
	expectServing(t, h, "4.0.0")
	if p := status(h, "new"); p.State != PluginUnused {
		t.Errorf("the new one: %+v", p)
	}
	stop()
}
