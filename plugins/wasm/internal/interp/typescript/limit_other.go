//go:build !linux

package typescript

// limitMemory does nothing where the system has no such limit: the deadline of
// the transform is what is left.
func limitMemory(uint64) error { return nil }
