//go:build linux

package work

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// A full disk is about files, for whoever wants to store one; what the container as a
// whole lacks is not.
func TestFaultsOfCapacity(t *testing.T) {
	for errno, subject := range map[unix.Errno]string{unix.ENOSPC: "file", unix.EDQUOT: "file", unix.EMFILE: "", unix.ENOMEM: ""} {
		if f := Fault(fmt.Errorf("write: %w", errno)); f.Kind != "capacity" || f.Subject != subject {
			t.Errorf("%v: %+v, want capacity about %q", errno, f, subject)
		}
	}
}
