package embedded

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
	"github.com/caisson-run/caisson/sdk/backend"
)

// A sandbox that is full is told from a machine that is: only of the first can its user
// remove something.
func TestFullSandboxAndFullMachine(t *testing.T) {
	for cause, full := range map[error]bool{rootfs.ErrQuota: true, syscall.ENOSPC: false, syscall.EDQUOT: false} {
		err := fileError("WriteFile", "/mnt/data/f", fmt.Errorf("write: %w", cause))
		if backend.KindOf(err) != backend.KindCapacity || backend.Full(err) != full || backend.ProvesGone(err) {
			t.Errorf("%v: %+v", cause, err)
		}
	}
}
