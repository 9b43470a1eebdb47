package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caisson-run/caisson/runtimes/wasm"
	"github.com/caisson-run/caisson/sdk/policy"
	"github.com/hashicorp/go-hclog"
)

// A manifest's limit on fuel ends the policy, which then has denied.
func TestFuelOfTheManifest(t *testing.T) {
	code, err := os.ReadFile("../runtimes/wasm/testdata/assemblyscript/policy.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fuel  int
		given int64
		ends  bool
	}{{1000, 1000, true}, {1_000_000, 1_000_000, false}, {0, 300_000_000, false}} {
		t.Run(fmt.Sprint(c.fuel), func(t *testing.T) {
			dir := t.TempDir()
			text := "schema: 1\nname: small\nversion: 1.0.0\nkind: policy\nruntime: wasm\nprotocol: 1\npath: policy.wasm\nimports: [log]\nlimits:\n  timeout: 100ms\n"
			if c.fuel > 0 {
				text += fmt.Sprintf("  fuel: %d\n", c.fuel)
			}
			install := filepath.Join(dir, "small")
			err := errors.Join(os.Mkdir(install, 0o755),
				os.WriteFile(filepath.Join(install, "plugin.yaml"), []byte(text), 0o644),
				os.WriteFile(filepath.Join(install, "policy.wasm"), code, 0o644))
			if err != nil {
				t.Fatal(err)
			}
			found, err := discover([]string{dir}, Trust{})
			if err != nil || len(found) != 1 || found[0].m == nil {
				t.Fatalf("found %+v, %v", found, err)
			}
			m, err := loadModule(t.Context(), found[0], nil, "", hclog.NewNullLogger())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := m.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			if i := m.Info(); i.Limits.Fuel != c.given || i.Stop != wasm.StopFuel {
				t.Errorf("limited to %d units, stopped by %s", i.Limits.Fuel, i.Stop)
			}
			_, err = judges(m).Admit(t.Context(), policy.Request{Org: "acme", Via: "bearer", Language: "py", Config: "wasm", Network: "none"})
			if c.ends && (!errors.Is(err, wasm.ReasonFuel) || !strings.Contains(err.Error(), "used more than 1000 units of fuel")) {
				t.Errorf("got %v", err)
			}
			if !c.ends && err != nil && !errors.Is(err, wasm.ReasonTimeout) { // the machine may be busy
				t.Error(err)
			}
		})
	}
}
