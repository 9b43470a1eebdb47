package account

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
)

// Replica is one host over some accounts: session.Targets. It counts what is held.
type Replica struct {
	// Configs by id, the default named.
	Accounts map[string]*Account
	Order    []string // the default first
	Node     string

	mu   sync.Mutex
	held int
}

// NewReplica returns a replica that fails the test if it ends with targets held.
func NewReplica(t testing.TB, accounts map[string]*Account, order ...string) *Replica {
	r := &Replica{Accounts: accounts, Order: order}
	t.Cleanup(func() {
		if n := r.Held(); n != 0 {
			t.Errorf("%d targets were not released", n)
		}
	})
	return r
}

// Held is how many targets are held.
func (r *Replica) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// Default implements session.Targets.
func (r *Replica) Default(ctx context.Context, tenant string) (session.Target, error) {
	return r.Named(ctx, tenant, r.Order[0])
}

// Named implements session.Targets.
func (r *Replica) Named(_ context.Context, _, config string) (session.Target, error) {
	a, ok := r.Accounts[config]
	if !ok {
		return session.Target{}, session.ErrConfigNotFound
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held++
	return session.Target{
		Config: config, Node: r.Node, Backend: a, Info: a.Describe(),
		Release: sync.OnceFunc(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.held--
		}),
	}, nil
}

// Configs implements session.Targets.
func (r *Replica) Configs(string) []string { return r.Order }

// Clock is a clock that moves when it is told to.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

// NewClock starts at a fixed time.
func NewClock() *Clock { return &Clock{t: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// Advance moves it on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}
