package wasm

import (
	"sync/atomic"
	"time"
)

// Stats is a snapshot of what a module has done since it was loaded.
type Stats struct {
	// Calls counts calls that ran guest code or failed before; failures included.
	Calls uint64
	// Failures counts failed calls by their reason. Reasons that did not occur are
	// absent.
	Failures map[Reason]uint64
	// Fuel is what all calls used, failed ones included, and FuelHigh the most that
	// one did; StartFuel is what the starts of instances used. In units of package
	// meter; 0 for a module that is not metered.
	Fuel, FuelHigh, StartFuel uint64
	// Discards counts instances thrown away because a call failed, Recycled those
	// replaced because their memory had grown close to the limit.
	Discards, Recycled uint64
	// Refills counts instances made in place of those, RefillFailures attempts that
	// failed and were repeated.
	Refills, RefillFailures uint64
	// Waits counts calls that had to wait for an instance, WaitTime how long in all.
	Waits    uint64
	WaitTime time.Duration
	// LogDropped counts guest messages over the rate limit.
	LogDropped uint64
	// MemoryHighBytes is the largest memory any instance had.
	MemoryHighBytes int64
	// Instances is the size of the pool, Idle how many instances wait for a call.
	Instances, Idle int
}

// counters are the live form of Stats.
type counters struct {
	calls, discards, recycled, refills, refillFailures, waits atomic.Uint64
	fuel, startFuel                                           atomic.Uint64
	fuelHigh, waited                                          atomic.Int64
	memoryHigh                                                atomic.Uint32
	failures                                                  [len(reasons)]atomic.Uint64
}

func (c *counters) fail(reason Reason) {
	for i, r := range reasons {
		if r == reason {
			c.failures[i].Add(1)
		}
	}
}

// used counts the fuel of one call.
func (c *counters) used(fuel int64) {
	c.fuel.Add(uint64(fuel))
	for {
		high := c.fuelHigh.Load()
		if fuel <= high || c.fuelHigh.CompareAndSwap(high, fuel) {
			return
		}
	}
}

func (c *counters) memory(size uint32) {
	for {
		high := c.memoryHigh.Load()
		if size <= high || c.memoryHigh.CompareAndSwap(high, size) {
			return
		}
	}
}

// Stats returns a snapshot. It is safe for concurrent use; the numbers of calls in
// progress may be in some fields and not yet in others.
func (m *Module) Stats() Stats {
	c := &m.stats
	s := Stats{
		Calls:           c.calls.Load(),
		Failures:        map[Reason]uint64{},
		Fuel:            c.fuel.Load(),
		FuelHigh:        uint64(c.fuelHigh.Load()),
		StartFuel:       c.startFuel.Load(),
		Discards:        c.discards.Load(),
		Recycled:        c.recycled.Load(),
		Refills:         c.refills.Load(),
		RefillFailures:  c.refillFailures.Load(),
		Waits:           c.waits.Load(),
		WaitTime:        time.Duration(c.waited.Load()),
		LogDropped:      m.guestLog.dropped.Load(),
		MemoryHighBytes: int64(c.memoryHigh.Load()),
		Instances:       m.spec.Limits.Instances,
		Idle:            len(m.idle),
	}
	for i, r := range reasons {
		if n := c.failures[i].Load(); n > 0 {
			s.Failures[r] = n
		}
	}
	return s
}
