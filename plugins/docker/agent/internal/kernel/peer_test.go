//go:build linux

package kernel

import (
	"os"
	"strings"
	"testing"
)

// TestKnowsPeers: Linux says who connected. gVisor of 2022, run with "runsc do", does not.
func TestKnowsPeers(t *testing.T) {
	needRoot(t)
	version, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	gvisor := strings.HasPrefix(string(version), "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016")
	got := KnowsPeers(12345, 12345)
	if !got && !gvisor {
		t.Errorf("%v on %s", got, version)
	}
	t.Logf("gVisor: %v, it says who connected: %v", gvisor, got)
}
