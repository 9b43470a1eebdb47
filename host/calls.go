package host

import (
	"fmt"
	"sync/atomic"

	"github.com/caisson-run/caisson/runtimes/process"
)

// calls counts what one program or module was asked and how often it is to blame for a
// failure. It is safe for concurrent use.
type calls struct {
	all, failed atomic.Int64
	// unreadable counts answers that came, and were not what was asked for. The
	// runtime of modules takes them for good ones.
	unreadable atomic.Uint64
}

func (c *calls) observe(call process.Call) { c.count(call.Blamed) }

// count counts one call; nil counts none.
func (c *calls) count(failed bool) {
	if c == nil {
		return
	}
	c.all.Add(1)
	if failed {
		c.failed.Add(1)
	}
}

// read takes what became of reading an answer, and returns it.
func (c *calls) read(err error) error {
	if c != nil && err != nil {
		c.unreadable.Add(1)
	}
	return err
}

// failing says that of what was asked since before too much failed.
func (c *calls) failing() error {
	all, failed := c.all.Load(), c.failed.Load()
	if failed >= minFailures && failed*2 > all {
		return fmt.Errorf("%d of %d calls failed", failed, all)
	}
	return nil
}

// minFailures is how many failures say something.
const minFailures = 3
