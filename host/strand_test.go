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

	"github.com/caisson-run/caisson/host/backendconfig"
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
