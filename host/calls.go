package host

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/codes"

	"github.com/caisson-run/caisson/runtimes/process"
)

// calls counts what one program was asked and how often it is to blame for a
// failure. It is safe for concurrent use.
type calls struct{ all, failed atomic.Int64 }

func (c *calls) observe(call process.Call) {
	c.all.Add(1)
	if blamed(call.Code) {
		c.failed.Add(1)
	}
}

// blamed are the ends of a call that count against the plugin: it crashed, broke
// the contract, or says that it, or what it stands for, cannot work now. What it
// says about one sandbox or one request does not count.
func blamed(code codes.Code) bool {
	switch code {
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss,
		codes.FailedPrecondition: // how backend.KindUnavailable travels
		return true
	default:
		return false
	}
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
