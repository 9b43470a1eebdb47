package backendconfig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Keep runs f with configs cordoned, once everybody looks. The context of f ends when a
// cordon cannot be renewed. Without configs it is f. When somebody else holds one of the
// cordons it is ErrBusy, and f is not called.
func Keep(ctx context.Context, cordons Cordons, configs []string, f func(context.Context) error) (err error) {
	if len(configs) == 0 {
		return f(ctx)
	}
	holder := rand.Text()
	configs = slices.Compact(slices.Sorted(slices.Values(configs)))
	for i, config := range configs {
		held, err := cordons.Hold(ctx, config, holder, CordonTime)
		if err == nil && !held {
			err = ErrBusy
		}
		if err != nil {
			lift(ctx, cordons, configs[:i+1], holder) // a Hold whose answer was lost counts
			return fmt.Errorf("cordon config %q: %w", config, err)
		}
	}
	bounded, cancel := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		renew(bounded, cordons, configs, holder, cancel)
	}()
	if err = sleep(bounded, cordons.Settle()); err == nil {
		err = f(bounded)
	}
	if cause := context.Cause(bounded); cause != nil && ctx.Err() == nil {
		err = errors.Join(err, cause)
	}
	cancel(nil)
	<-renewed
	lift(ctx, cordons, configs, holder)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lift ends cordons also for a caller who is gone. One that cannot be lifted ends by
// itself.
func lift(ctx context.Context, cordons Cordons, configs []string, holder string) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), CordonTime/3)
	defer stop()
	for _, config := range configs {
		_ = cordons.Lift(ctx, config, holder)
	}
}

func renew(ctx context.Context, cordons Cordons, configs []string, holder string, lost context.CancelCauseFunc) {
	t := time.NewTicker(CordonTime / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, config := range configs {
			if held, err := cordons.Hold(ctx, config, holder, CordonTime); err != nil || !held {
				lost(fmt.Errorf("config %q: the cordon was lost", config))
				return
			}
		}
	}
}
