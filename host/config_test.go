package host

import (
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

func TestConfigComplete(t *testing.T) {
	for _, c := range []struct {
		name string
		c    Config
		want string // the default, or "" for refused
	}{
		{"none", Config{}, ""},
		{"id from the plugin", Config{Backends: []BackendConfig{{Plugin: "wasm"}}}, "wasm"},
		{"first is default", Config{Backends: []BackendConfig{{ID: "a", Plugin: "wasm"}, {ID: "b", Plugin: "wasm"}}}, "a"},
		{"named default", Config{Backends: []BackendConfig{{ID: "a", Plugin: "wasm"}, {ID: "b", Plugin: "wasm"}}, Default: "b"}, "b"},
		{"unknown default", Config{Backends: []BackendConfig{{Plugin: "wasm"}}, Default: "x"}, ""},
		{"a tenant's own as default", Config{Backends: []BackendConfig{{Plugin: "wasm", Tenant: "acme"}}}, ""},
		{"twice", Config{Backends: []BackendConfig{{Plugin: "wasm"}, {ID: "wasm", Plugin: "docker"}}}, ""},
		{"bad id", Config{Backends: []BackendConfig{{ID: "../a", Plugin: "wasm"}}}, ""},
		{"the sentinel", Config{Backends: []BackendConfig{{ID: backend.NoConfig, Plugin: "wasm"}}}, backend.NoConfig},
	} {
		err := c.c.complete()
		if (err == nil) != (c.want != "") || (err == nil && c.c.Default != c.want) {
			t.Errorf("%s: default %q, err %v; want %q", c.name, c.c.Default, err, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	h := &Host{}
	h.o.Config = Config{
		Backends:  []BackendConfig{{Plugin: "wasm"}},
		Limits:    backend.Limits{Wall: 10 * time.Second},
		MaxLimits: backend.Limits{Wall: 60 * time.Second, CPUs: 1.5},
	}
	if err := h.o.Config.complete(); err != nil {
		t.Fatal(err)
	}
	small := session.Target{Info: backend.Info{MaxLimits: backend.Limits{MemoryBytes: 64 << 20, Wall: 20 * time.Second}}}
	for _, c := range []struct {
		name   string
		t      session.Target
		want   backend.Limits
		wall   time.Duration
		memory int64
		cpus   float64
	}{
		{"defaults", session.Target{}, backend.Limits{}, 10 * time.Second, 512 << 20, 1.5},
		{"asked for", session.Target{}, backend.Limits{Wall: 30 * time.Second, MemoryBytes: 1 << 20}, 30 * time.Second, 1 << 20, 1.5},
		{"too much", session.Target{}, backend.Limits{Wall: time.Hour, MemoryBytes: 1 << 40, CPUs: 64}, 60 * time.Second, 2 << 30, 1.5},
		{"negative", session.Target{}, backend.Limits{Wall: -1, MemoryBytes: -1}, 10 * time.Second, 512 << 20, 1.5},
		{"the backend's own maximum", small, backend.Limits{Wall: 30 * time.Second}, 20 * time.Second, 64 << 20, 1.5},
	} {
		got := h.Limits(c.t, c.want)
		if got.Wall != c.wall || got.MemoryBytes != c.memory || got.CPUs != c.cpus || got.StdoutBytes != 1<<20 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
