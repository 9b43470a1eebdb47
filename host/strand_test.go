package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/backendconfig"
	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// List returns as many sandboxes as the file "live" says.
func (p plugin) List(_ context.Context, f backend.ListFilter) ([]backend.Sandbox, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, "live"))
	if err != nil {
		return nil, nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return nil, backend.Errorf(backend.KindUnavailable, "List", "%s", text)
	}
	list := make([]backend.Sandbox, n)
	for i := range list {
		list[i] = backend.Sandbox{
			Ref: backend.Ref{Config: f.Config, ID: fmt.Sprint("s", i)}, State: backend.StatePaused,
			Metadata: backend.Metadata{Deployment: f.Deployment, Config: f.Config},
		}
	}
	return list, nil
}

// TestReconfigureStrandsNothing: a config is not changed so that live sandboxes would
// be out of reach, and nobody is asked about any other change.
func TestReconfigureStrandsNothing(t *testing.T) {
	f := newFixture(t)
	noted := strings.Replace(fakeManifest, "region: {type: string, default: eu}", "region: {type: string, default: eu, x-identity: true}\n    size: {type: integer}", 1)
	f.install("fake", noted, self(t), 0o755)
	f.instruct(script{Name: "fake", Version: "1.2.3", Capabilities: []backend.Capability{backend.CapList}})
	h := f.open()
	for _, c := range []struct {
		live, config string
		err          string
	}{
		{"2", `{"region":"us"}`, "2 live sandboxes"},
		{"no answer", `{"region":"us"}`, "no answer"},
		{"2", `{"region":"eu","size":3}`, ""},
		{"no answer", `{"size":4}`, ""},
		{"0", `{"region":"us"}`, ""},
	} {
		dir := filepath.Join(f.data, "plugins", "fake")
		if err := os.WriteFile(filepath.Join(dir, "live"), []byte(c.live), 0o600); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(filepath.Join(dir, "config-fake"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Reconfigure(t.Context(), f.change(func(o *Config) { o.Backends[0].Config = json.RawMessage(c.config) }))
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s with %s live: %v, want %q", c.config, c.live, err, c.err)
		}
		if c.live == "2" && c.err != "" && !errors.Is(err, backendconfig.ErrInUse) {
			t.Errorf("%v is not ErrInUse", err)
		}
		if after, err := os.ReadFile(filepath.Join(dir, "config-fake")); err != nil || c.err != "" && !slices.Equal(before, after) {
			t.Errorf("after a refusal the config is %s, %v", after, err)
		}
		expectServing(t, h, "1.2.3")
	}
}

// TestReconfigureDeletesNothingInUse: a config is not taken away while its provider has
// sandboxes of it, whatever its manifest says, and keeps its work away meanwhile.
func TestReconfigureDeletesNothingInUse(t *testing.T) {
	f := newFixture(t)
	f.install("fake", fakeManifest, self(t), 0o755)
	f.instruct(script{Name: "fake", Version: "1.2.3", Capabilities: []backend.Capability{backend.CapList}})
	h := f.open()
	with := f.change(func(o *Config) {
		o.Backends = append(o.Backends, BackendConfig{ID: "second", Plugin: "fake", Config: json.RawMessage(`{}`)})
	})
	without := f.options().Config
	if _, err := h.Reconfigure(t.Context(), with); err != nil {
		t.Fatal(err)
	}
	live := filepath.Join(f.data, "plugins", "fake", "live")
	if err := os.WriteFile(live, []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Reconfigure(t.Context(), without); !errors.Is(err, backendconfig.ErrInUse) {
		t.Errorf("with live sandboxes: %v, want ErrInUse", err)
	}
	// While somebody else changes it, it takes no work and no second change.
	if ok, err := h.keeping.cordons.Hold(t.Context(), "second", "another", time.Minute); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := os.Remove(live); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Reconfigure(t.Context(), without); !errors.Is(err, backendconfig.ErrBusy) {
		t.Errorf("beside another change: %v, want ErrBusy", err)
	}
	managed, err := h.Managed()
	if err != nil {
		t.Fatal(err)
	}
	manager := func() error { _, err := managed.Resolve(t.Context(), "tenant", "second"); return err }
	if err := manager(); !errors.Is(err, session.ErrConfigCordoned) {
		t.Errorf("a cordoned config: %v", err)
	}
	if err := h.keeping.cordons.Lift(t.Context(), "second", "another"); err != nil {
		t.Fatal(err)
	}
	if err := manager(); err != nil {
		t.Errorf("after the cordon: %v", err)
	}
	if _, err := h.Reconfigure(t.Context(), without); err != nil {
		t.Errorf("with nothing left: %v", err)
	}
	if held, err := h.keeping.cordons.Cordoned(t.Context(), "second"); held || err != nil {
		t.Errorf("the cordon stays: %v, %v", held, err)
	}
}
