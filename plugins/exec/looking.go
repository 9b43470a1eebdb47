package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/caisson-run/caisson/plugins/exec/internal/names"
	"github.com/caisson-run/caisson/plugins/exec/internal/queue"
	"github.com/caisson-run/caisson/sdk/backend"
)

// maxWalk bounds what is looked at in one session. Sandboxes of the embedded backend hold
// less.
const maxWalk = 64_000

// maxDigest is the longest file whose content makes its id. Nothing that is
// uploaded or handed back by a run is longer.
const maxDigest = 1 << 30

// long is how many files make an answer one of which there may be few at once, as it stays
// in memory until its reader has it.
const long = 2000

// looks bounds what looking through sessions takes from runs, and tenants from each other.
type looks struct {
	walks   *queue.Queue // one after the other, like runs
	answers *queue.Queue // long ones
}

func newLooks() looks {
	processors := runtime.GOMAXPROCS(0)
	return looks{
		walks: queue.New(queue.Limits{
			Running: 4 * processors, Waiting: 4096, TenantRunning: processors, TenantWaiting: 512, TenantShare: max(1, processors/2),
		}),
		answers: queue.New(queue.Limits{Running: 32, TenantRunning: 8}),
	}
}

// walk looks through an open or running session when it is its tenant's turn.
func (l looks) walk(ctx context.Context, tenant string, x *finding, exclude []string) (backend.WalkResult, error) {
	place, err := l.walks.Join(tenant)
	if err != nil {
		return backend.WalkResult{}, tooManyLooks(err)
	}
	defer place.Leave()
	if x.Info.Has(backend.CapShared) { // a provider has machines of its own
		place.Elsewhere()
	}
	if err := place.Wait(ctx); err != nil {
		return backend.WalkResult{}, err
	}
	return x.Backend.Walk(ctx, backend.WalkRequest{
		Ref: x.Sandbox.Ref, Root: backend.DataDir, MaxEntries: maxWalk, MaxDepth: 2 * names.MaxSegments,
		Digests: true, MaxDigestBytes: maxDigest, Exclude: exclude,
	})
}

// answer takes a place for an answer about so many files until leave is called.
func (l looks) answer(tenant string, files int) (leave func(), err error) {
	if files < long {
		return func() {}, nil
	}
	place, err := l.answers.Join(tenant)
	if err != nil {
		return nil, tooManyLooks(err)
	}
	return place.Leave, nil
}

func tooManyLooks(err error) error {
	if _, ok := errors.AsType[*queue.FullError](err); ok {
		return rateLimited("too many listings at once", defaultRetry, err)
	}
	return fmt.Errorf("look through a session: %w", err)
}
