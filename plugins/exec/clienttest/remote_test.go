package clienttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
)

// remoteConfig starts a fake provider and writes the configuration of a server that
// uses it.
func remoteConfig(t *testing.T, plugin string) string {
	t.Helper()
	for _, program := range []string{"python3", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			need(t, "%s, which the fake's sandboxes share with this machine, is missing", program)
		}
	}
	s := remotetest.Stand(t, map[string]controlfake.Provider{"e2b": controlfake.E2B, "cube": controlfake.Cube}[plugin])
	file := filepath.Join(t.TempDir(), "caisson.yaml")
	text := fmt.Sprintf(`backends:
  - id: remote
    plugin: %s
    config:
      api_url: %s
      proxy_url: %s
      sandbox_domain: %s
      template_id: base
      allow_private: true
    secrets:
      api_key: { env: REMOTE_KEY }
`, plugin, s.API, s.GatewayURL, remotetest.Domain)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
