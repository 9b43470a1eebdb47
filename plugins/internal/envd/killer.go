package envd

import (
	"context"
	"sync"
	"time"

	"github.com/caisson-run/caisson/sdk/backend"
)

// killer stops a program when its time is up or its caller leaves. Then it allows what
// is still on its way some time, and gives the stream up.
type killer struct {
	f     *follower
	kill  func(why backend.StopReason) error
	drain time.Duration

	mu     sync.Mutex
	reason backend.StopReason
	over   chan struct{} // closed by end
	done   chan struct{} // closed when the goroutine ended
}

// newKiller watches a program until end is called. A timeout of 0 is none.
func newKiller(ctx context.Context, f *follower, timeout, drain time.Duration, kill func(backend.StopReason) error) *killer {
	k := &killer{f: f, kill: kill, drain: drain, over: make(chan struct{}), done: make(chan struct{})}
	go k.watch(ctx, timeout)
	return k
}

func (k *killer) watch(ctx context.Context, timeout time.Duration) {
	defer close(k.done)
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	reason := backend.StopCanceled
	select {
	case <-k.over:
		return
	case <-expired:
		reason = backend.StopTimeout
	case <-ctx.Done():
	}
	k.stop(reason)
	t := time.NewTimer(k.drain)
	defer t.Stop()
	select {
	case <-k.over:
	case <-t.C:
		k.f.cancel(context.Canceled)
	}
}

// stop kills the program, for the first reason that comes.
func (k *killer) stop(reason backend.StopReason) {
	k.mu.Lock()
	first := k.reason == ""
	if first {
		k.reason = reason
	}
	k.mu.Unlock()
	if first {
		// When the daemon cannot be reached, giving up the stream is all there is.
		_ = k.kill(reason)
	}
}

// why is the reason, empty when the program was left alone.
func (k *killer) why() backend.StopReason {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reason
}

// end stops watching, and waits until killing is over.
func (k *killer) end() {
	close(k.over)
	<-k.done
}
