package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
)

// TestSoakModules asks every module that is shipped a million times: its memory stays
// flat, and the same calls use the same fuel.
func TestSoakModules(t *testing.T) {
	if _, err := time.ParseDuration(os.Getenv("CAISSON_SOAK")); err != nil {
		t.Skip("SKIP: CAISSON_SOAK is no duration; see make soak")
	}
	p := newPlace(t)
	files, err := filepath.Glob(filepath.Join(plugins, "*", "*.wasm"))
	if err != nil || len(files) < 3 {
		t.Fatalf("modules %q, %v", files, err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			cmd := p.command(t.Context(), p.flags("plugin", "verify", "--json", dir)...)
			out, err := cmd.Output()
			var checks []host.VerifyCheck
			if err != nil || json.Unmarshal(out, &checks) != nil || len(checks) != 6 {
				t.Fatalf("%v: %s", err, out)
			}
			for _, c := range checks {
				t.Logf("%s: %s, in %v", c.Name, c.Detail, c.Took.Round(time.Millisecond))
				if !c.OK {
					t.Errorf("%s: %s", c.Name, c.Detail)
				}
			}
		})
	}
}
