// Package machine says how much memory there is for this process and what it starts.
package machine

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// Memory is the smaller of the machine's memory and what the process's control groups
// allow, in bytes; 0 where neither can be found out.
func Memory() int64 {
	most := physical()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return most
	}
	if limit := groupLimit(string(own), os.ReadFile); limit > 0 && (most == 0 || limit < most) {
		return limit
	}
	return most
}

// groupLimit is the least memory.max of a process's group and those above it, as
// cgroups of version 2 have them (cgroups(7)). Within a container the
// group is the root of what can be seen.
func groupLimit(own string, read func(string) ([]byte, error)) (least int64) {
	group := "/"
	for line := range strings.Lines(own) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			group = path.Clean("/" + p)
		}
	}
	for ; ; group = path.Dir(group) {
		b, err := read(path.Join("/sys/fs/cgroup", group, "memory.max"))
		if err == nil {
			n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64) // or "max"
			if err == nil && n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
		if group == "/" {
			return least
		}
	}
}
