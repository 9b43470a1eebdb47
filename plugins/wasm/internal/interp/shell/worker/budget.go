//go:build !race

package worker

// ExtraBytes is added to the memory limit of a job.
const ExtraBytes = 0
