package typescript

import "golang.org/x/sys/unix"

// limitMemory bounds what the process can write to. Unlike the size of the
// address space, that does not count what Go only reserves.
func limitMemory(n uint64) error {
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: n, Max: n})
}
