package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// retryPatience is how long a run waits for a backend that says when to ask again.
// What it prepares it would begin anew for the next process: one that is waited for
// here is there for the next run too.
const retryPatience = 10 * time.Minute

// retried calls run until it is carried out, or fails for another reason than that
// the backend has no room for it yet.
func retried(ctx context.Context, say io.Writer, run func() error) error {
	for end := time.Now().Add(retryPatience); ; {
		err := run()
		be, ok := errors.AsType[*backend.Error](err)
		if !ok || be.RetryAfter <= 0 || be.Kind != backend.KindCapacity && be.Kind != backend.KindUnavailable || time.Now().Add(be.RetryAfter).After(end) {
			return err
		}
		fmt.Fprintf(say, "caisson: %v; trying again in %v\n", be, be.RetryAfter.Round(time.Second))
		select {
		case <-time.After(be.RetryAfter):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
