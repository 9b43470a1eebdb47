package clienttest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/remotetest"
)

// remoteConfig starts a fake provider and writes the configuration of a server that
// uses it.
func remoteConfig(t *testing.T, plugin string) string {
	t.Helper()
	remotetest.Need(t, "python3", "node")
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
