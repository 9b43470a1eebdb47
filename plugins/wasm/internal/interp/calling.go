package interp

import (
	"fmt"
	"math"

	"golang.org/x/sync/semaphore"

	"github.com/caisson-run/caisson/plugins/wasm/internal/interp/guest"
)

// calling bounds what programs hold that may make calls. Others are bounded by their
// slots; these give theirs up while they wait for an answer, and keep all else.
type calling struct {
	cfg              Config
	programs, memory *semaphore.Weighted
}

func newCalling(cfg Config) *calling {
	if cfg.MaxCalling == 0 {
		cfg.MaxCalling = math.MaxInt
	}
	if cfg.CallingBytes == 0 {
		cfg.CallingBytes = math.MaxInt64
	}
	return &calling{cfg, semaphore.NewWeighted(int64(cfg.MaxCalling)), semaphore.NewWeighted(cfg.CallingBytes)}
}

// begin counts a program until release. It does not wait: that those end that are there
// may take as long as their callers please.
func (c *calling) begin(p Program) (release func(), err error) {
	if p.Control == nil {
		return func() {}, nil
	}
	need := guest.MemoryLimit(p)
	switch {
	case need > c.cfg.CallingBytes:
		return nil, fmt.Errorf("%w: MemoryBytes: %d is more than programs that make calls may use together, %d", ErrBadProgram, need, c.cfg.CallingBytes)
	case !c.programs.TryAcquire(1):
		return nil, fmt.Errorf("%w: %d programs that may make calls have not ended", ErrBusy, c.cfg.MaxCalling)
	case !c.memory.TryAcquire(need):
		c.programs.Release(1)
		return nil, fmt.Errorf("%w: the programs that may make calls use the %d bytes of memory that they may use together", ErrBusy, c.cfg.CallingBytes)
	}
	return func() {
		c.memory.Release(need)
		c.programs.Release(1)
	}, nil
}
