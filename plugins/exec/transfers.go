package exec

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
)

// transfers bounds the uploads and downloads that are under way at once, in all and for
// each tenant: each has a connection of its backend and some memory, and its client may be
// slow. They count in this process.
type transfers struct {
	uploads, downloads *queue.Queue
	// skips are downloads that read what nobody asked for to come to what somebody did,
	// which no reader slows down.
	skips *queue.Queue
}

func newTransfers() transfers {
	processors := runtime.GOMAXPROCS(0)
	return transfers{
		uploads:   queue.New(queue.Limits{Running: 256, Waiting: 256, TenantRunning: 64, TenantWaiting: 128}),
		downloads: queue.New(queue.Limits{Running: 1024, Waiting: 1024, TenantRunning: 256, TenantWaiting: 512}),
		skips: queue.New(queue.Limits{
			Running: 2 * processors, Waiting: 1024, TenantRunning: processors, TenantWaiting: 256, TenantShare: max(1, processors/2),
		}),
	}
}

// transfer waits for a place in q for something of tenant, as long as a run may wait for
// its own. what is plural.
func (i *Interpreter) transfer(ctx context.Context, q *queue.Queue, tenant, what string) (leave func(), err error) {
	place, err := q.Join(tenant)
	if err != nil {
		return nil, tooMany(what, err)
	}
	return await(ctx, place, i.o.MaxWait, what)
}

// await waits for the turn of a place, for so long at most. It leaves the place on an error.
func await(ctx context.Context, place *queue.Place, most time.Duration, what string) (leave func(), err error) {
	wait, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if err := place.Wait(wait); err != nil {
		place.Leave()
		if ctx.Err() == nil {
			err = rateLimited("too many "+what+" at once", defaultRetry, err)
		}
		return nil, err
	}
	return place.Leave, nil
}

// tooMany is what an error of Join comes to. what is plural.
func tooMany(what string, err error) error {
	if _, full := errors.AsType[*queue.FullError](err); full {
		return rateLimited("too many "+what+" at once", defaultRetry, err)
	}
	return err
}
