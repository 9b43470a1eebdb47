package host

import (
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/caisson-run/caisson/sdk/backend"
)

// DefaultLimits are what a run gets when neither it nor the operator says
// otherwise (docs/operators.md).
func DefaultLimits() backend.Limits {
	return backend.Limits{
		Wall:        30 * time.Second,
		MemoryBytes: 512 << 20,
		CPUs:        2,
		Processes:   512,
		StdoutBytes: 1 << 20,
		StderrBytes: 1 << 20,
	}
}

// DefaultMaxLimits are what a run may ask for at most.
func DefaultMaxLimits() backend.Limits {
	return backend.Limits{
		Wall:        300 * time.Second,
		MemoryBytes: 2 << 30,
		CPUs:        2,
		Processes:   512,
		StdoutBytes: 16 << 20,
		StderrBytes: 16 << 20,
	}
}

// Limits returns what a run gets on t when it asks for want: want where set,
// else the deployment's default, never more than the maximum of the deployment
// and of t's backend.
func (h *Host) Limits(t session.Target, want backend.Limits) backend.Limits {
	c := h.config()
	return fold(fold(want, c.Limits, orDefault), fold(c.MaxLimits, t.Info.MaxLimits, lesser), lesser)
}

// fold applies f to each member of a and b; a zero member says nothing.
func fold(a, b backend.Limits, f func(a, b float64) float64) backend.Limits {
	n := func(a, b int64) int64 { return int64(f(float64(a), float64(b))) }
	d := func(a, b time.Duration) time.Duration { return time.Duration(f(float64(a), float64(b))) }
	return backend.Limits{
		Wall:        d(a.Wall, b.Wall),
		CPU:         d(a.CPU, b.CPU),
		MemoryBytes: n(a.MemoryBytes, b.MemoryBytes),
		CPUs:        f(a.CPUs, b.CPUs),
		Processes:   n(a.Processes, b.Processes),
		StdoutBytes: n(a.StdoutBytes, b.StdoutBytes),
		StderrBytes: n(a.StderrBytes, b.StderrBytes),
		DiskBytes:   n(a.DiskBytes, b.DiskBytes),
		DiskFiles:   n(a.DiskFiles, b.DiskFiles),
	}
}

func orDefault(a, b float64) float64 {
	if a > 0 {
		return a
	}
	return b
}

// lesser treats what is not positive as unbounded.
func lesser(a, b float64) float64 {
	switch {
	case a <= 0:
		return b
	case b <= 0:
		return a
	default:
		return min(a, b)
	}
}
