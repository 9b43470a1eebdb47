package clienttest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/caisson-run/caisson/internal/enginetest"
)

// TestWireInDocker meets the edge cases and workflows in containers of the full image,
// where the interpreters are the original ones: the wire is the same.
func TestWireInDocker(t *testing.T) {
	host, image := os.Getenv("CAISSON_TEST_DOCKER_HOST"), os.Getenv("CAISSON_TEST_DOCKER_FULL_IMAGE")
	switch {
	case image != "" && host == "":
		t.Fatal("CAISSON_TEST_DOCKER_FULL_IMAGE is set, and CAISSON_TEST_DOCKER_HOST is not")
	case host == "":
		need(t, `SKIP: CAISSON_TEST_DOCKER_HOST names no engine; see "tools/engine.sh env"`)
	case image == "": // as in "make test" of the gate, which has its own stage for this
		t.Skip("SKIP: CAISSON_TEST_DOCKER_FULL_IMAGE is not set: make test-full runs this")
	}
	config := filepath.Join(t.TempDir(), "caisson.yaml")
	text := fmt.Sprintf(`backends:
  - id: docker
    plugin: docker
    config: {enabled: true, host: %q, image: %q, pull: never}
default_backend: docker
`, host, image)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var s server
	t.Cleanup(func() { // after the server's end, which its containers outlive
		if _, err := enginetest.Remove(host, s.data); err != nil {
			t.Error(err)
		}
	})
	s = startServer(t, "--config", config)
	t.Run("rows", func(t *testing.T) { runRows(t, s) })
	t.Run("workflows", func(t *testing.T) { runWorkflows(t, s) })
}
