package reaper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/caisson-run/caisson/host/session/binding"
)

// patience is how long a sweep waits for another replica's before it leaves the work
// to that one.
const patience = 200 * time.Millisecond

// Alone calls f unless another replica is at the same work, and reports whether it
// did. That saves work and no more: whatever f does looks again under locks of its
// own. f's context ends with ctx, and when another replica takes over.
func Alone(ctx context.Context, store *binding.Store, work string, f func(context.Context) error) (ran bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	sum := sha256.Sum256([]byte(work)) // names may be long
	key := binding.Key{Tenant: "_sweep", Session: hex.EncodeToString(sum[:16])}
	err = store.WithLifecycleLock(waiting, key, func(_ context.Context, own *binding.Ownership) error {
		ran = true
		alone, stop := context.WithCancel(own.Context())
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		return f(alone)
	})
	if !ran && ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return false, nil
	}
	return ran, err
}
