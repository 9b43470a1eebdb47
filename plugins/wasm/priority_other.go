//go:build unix && !linux

package main

import "syscall"

// lowerPriority leaves processors to others.
func lowerPriority(nice int) { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice) }
