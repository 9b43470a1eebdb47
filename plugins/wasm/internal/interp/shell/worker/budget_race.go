//go:build race

package worker

// ExtraBytes is added to the memory limit of a job: the race detector keeps
// several bytes of its own for each byte of Go's.
const ExtraBytes = 768 << 20
