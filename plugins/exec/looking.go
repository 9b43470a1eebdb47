package exec

import (
	"context"
	"runtime"
	"time"

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
	maxWait time.Duration
}

func newLooks(maxWait time.Duration) looks {
	processors := runtime.GOMAXPROCS(0)
	return looks{
		walks: queue.New(queue.Limits{
			Running: 4 * processors, Waiting: 4096, TenantRunning: processors, TenantWaiting: 512, TenantShare: max(1, processors/2),
		}),
		answers: queue.New(queue.Limits{Running: 32, TenantRunning: 8}),
		maxWait: maxWait,
	}
}

// walk looks through an open or running session when it is its tenant's turn.
func (l looks) walk(ctx context.Context, tenant string, x *finding, exclude []string) (backend.WalkResult, error) {
	place, err := l.walks.Join(tenant)
	if err != nil {
		return backend.WalkResult{}, tooMany("listings", err)
	}
	if x.Info.Has(backend.CapShared) { // a provider has machines of its own
		place.Elsewhere()
	}
	leave, err := await(ctx, place, l.maxWait, "listings")
	if err != nil {
		return backend.WalkResult{}, err
	}
	defer leave()
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
		return nil, tooMany("listings", err)
	}
	return place.Leave, nil
}
