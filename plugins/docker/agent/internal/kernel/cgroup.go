//go:build linux

package kernel

import (
	"os"
	"strconv"
	"strings"
)

// Where a container sees its own limits: cgroup version 2 first, then 1.
var (
	memoryLimitFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}
	pidsLimitFiles   = []string{"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"}
	pidsNowFiles     = []string{"/sys/fs/cgroup/pids.current", "/sys/fs/cgroup/pids/pids.current"}
	oomFiles         = []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"}
	pidsEventFiles   = []string{"/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events"}
)

// MemoryLimit is the container's in bytes, 0 when there is none or it is not told.
func MemoryLimit() int64 { return limit(memoryLimitFiles) }

// PidsLimit is how many processes and threads the container may have, 0 when there is no
// limit or it is not told.
func PidsLimit() int64 { return limit(pidsLimitFiles) }

// PidsNow is how many there are, 0 when it is not told.
func PidsNow() int64 { return limit(pidsNowFiles) }

func limit(paths []string) int64 {
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		if err != nil || n >= 1<<62 { // "max", and what version 1 says instead
			return 0
		}
		return n
	}
	return 0
}

// OOMKills counts processes of the container that were killed because its memory was
// used up; it only grows.
func OOMKills() int64 { return event(oomFiles, "oom_kill") }

// PidsRefused counts forks that the container's limit refused; it only grows.
func PidsRefused() int64 { return event(pidsEventFiles, "max") }

func event(paths []string, name string) int64 {
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == name {
				n, _ := strconv.ParseInt(f[1], 10, 64)
				return n
			}
		}
	}
	return 0
}
