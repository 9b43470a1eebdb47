package main

import (
	"math"
	"syscall"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// ownDescriptors is what the plugin keeps for itself: connections, sandboxes used
// last, caches.
const ownDescriptors = 1024

// limits are those of every sandbox. Where the process may open few files, programs
// together may not take them all: the one that opens too many fails, not another.
func limits() rootfs.Limits {
	l := rootfs.DefaultLimits()
	var rl syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &rl); err != nil {
		return l
	}
	l.OpenFiles = openFiles(int64(min(uint64(rl.Cur), math.MaxInt64)), interp.DefaultMaxRunning(), l.OpenFiles)
	return l
}

// openFiles divides the descriptors of a process among the programs that may run at
// once, of which each has a data directory, a scratch directory and its source. Below
// 16 nothing works.
func openFiles(process int64, programs, most int) int {
	const directories = 3
	share := (process - ownDescriptors) / int64(programs*directories)
	return int(min(max(share, 16), int64(most)))
}
