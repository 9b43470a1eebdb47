package backendtest_test

import (
	"testing"

	"github.com/caisson-run/caisson/sdk/backend/backendtest"
)

// TestFaults: whatever a backend does, the host's client stays safe.
func TestFaults(t *testing.T) {
	h := inProcess(backendtest.Shell("sh"))
	h.Skip = nil
	backendtest.RunFaults(t, h, nil)
}
