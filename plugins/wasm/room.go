package main

import (
	"math"
	"syscall"

	"github.com/caisson-run/caisson/internal/machine"
	"github.com/caisson-run/caisson/plugins/wasm/internal/interp"
	"github.com/caisson-run/caisson/plugins/wasm/internal/rootfs"
)

// room is what programs may have of what the process has.
type room struct {
	// calling is how many programs that may make calls may live at once, callingBytes
	// what they may use of memory together by their limits; 0 is no bound.
	calling      int
	callingBytes int64
	// quota is that of every sandbox. Where the process may open few files, programs
	// together may not take them all: the one that opens too many fails, not another.
	quota rootfs.Limits
}

// findRoom looks at the process and the machine.
func findRoom() room {
	r := room{calling: mostCalling, quota: rootfs.DefaultLimits(), callingBytes: machine.Memory() / 2}
	var rl syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &rl); err != nil {
		return r
	}
	r.calling, r.quota.OpenFiles = divide(int64(min(uint64(rl.Cur), math.MaxInt64)), interp.DefaultMaxRunning(), r.quota.OpenFiles)
	return r
}

const (
	// ownDescriptors is what the plugin keeps for itself: connections, sandboxes used
	// last, caches.
	ownDescriptors = 1024
	// eachDescriptors is what it keeps for each program: its directories, streams, and
	// what is between the plugin and a script.
	eachDescriptors = 16
	// directories of each program: data, scratch, and the source.
	directories = 3
	// mostCalling programs that may make calls live at once, and leastCalling anywhere.
	mostCalling, leastCalling = 256, 8
	// fewFiles is what each program shall be able to open in each directory before
	// there are more programs that wait for the answer to a call. Below leastFiles
	// nothing works.
	fewFiles, leastFiles = 64, 16
)

// divide divides the descriptors of a process among the programs that may compute at
// once and those that may make calls, which keep theirs while they wait: how many of the
// latter there may be, and how many files each program may open in each directory.
func divide(process int64, running, most int) (calling, files int) {
	process -= ownDescriptors
	calling = int(min(max(process/(fewFiles*directories+eachDescriptors)-int64(running), leastCalling), mostCalling))
	share := (process/int64(running+calling) - eachDescriptors) / directories
	return calling, int(min(max(share, leastFiles), int64(most)))
}
