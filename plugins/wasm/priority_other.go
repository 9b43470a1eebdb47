//go:build unix && !linux

package main

import "syscall"

// lowerPriority leaves processors to others.
func lowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) }
