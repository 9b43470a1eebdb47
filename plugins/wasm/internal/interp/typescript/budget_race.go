//go:build race

package typescript

// The race detector keeps several bytes of its own for each byte of Go's.
const maxMemoryBytes = 2 << 30
