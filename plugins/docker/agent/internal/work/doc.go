//go:build linux

// Package work is what the agent runs: runs, commands and terminals, each as a user id of
// its own, each ended with everything that it started.
package work
