package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// lowerPriority leaves processors and memory to others: what this process does can
// wait, or be done again. Where something is refused the rest helps.
func lowerPriority(nice int) {
	// Each thread has a priority of its own, and gives it to those that it starts.
	for before := -1; ; {
		threads, _ := os.ReadDir("/proc/self/task")
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice)
			}
		}
		if len(threads) == before {
			break
		}
		before = len(threads)
	}
	// If memory runs out, this process goes first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}
