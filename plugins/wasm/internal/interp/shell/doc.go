// Package shell runs Bash scripts. The shell is mvdan.cc/sh, the commands beside
// it are those of package coreutils; both are Go and nothing of the host's is
// started.
//
// A script runs in a worker: a process of its own, started from the program that
// this package is linked into, used once and then gone. Scripts can make any
// program use up memory and processor, and a process is what can be limited and
// killed. The worker holds nothing: an empty environment, no directory, no network, no
// way to start anything. What it may do with files it asks this package to do,
// over a socket, in the file systems of the run; so quotas, links and limits are
// those that every other interpreter has. Programs such as python3 it asks for
// as well; they run in the engine, on the same directories.
//
// Packages: wire is what both sides say to each other, worker is the other side.
// This package needs Linux; see Supported.
package shell
