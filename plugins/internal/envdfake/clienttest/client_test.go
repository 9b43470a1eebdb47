package clienttest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/plugins/internal/controlfake"
	"github.com/caisson-run/caisson/plugins/internal/envdfake"
)

// need ends the test with the reason why it cannot run.
func need(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CAISSON_CI") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// TestClient: create, run, files, watch, terminal, pause, connect and kill, as the
// provider's client does them, without one violation.
func TestClient(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		need(t, "node is missing: %v", err)
	}
	if _, err := os.Stat(filepath.FromSlash("testdata/node_modules/.installed")); err != nil {
		need(t, "the client is not installed; run \"make clients\"")
	}
	probe, err := envdfake.New(t.TempDir(), envdfake.Options{})
	if err != nil {
		need(t, "no sandboxes here: %v", err)
	}
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	const key = "e2b_0000000000000000000000000000000000000000"
	stand, err := controlfake.Listen(controlfake.Options{
		Provider: controlfake.E2B, Dir: t.TempDir(), APIKey: key, Domain: "sandbox.test", Templates: []string{"base"},
		Violation: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			t.Errorf("violation: %s", text)
		},
	}, "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stand.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "flow.mjs", stand.API, stand.GatewayURL, key)
	cmd.Dir = "testdata"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "done\n") {
		t.Errorf("the client: %v\n%s", err, out)
	}
}
