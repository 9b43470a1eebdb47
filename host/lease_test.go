package host

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/hashicorp/go-hclog"
)

// books remember what was reserved and debited.
type books struct {
	balance int64
	held    int64
	debits  map[string]Usage
}

type entryCharge struct {
	b     *books
	cents int64
	done  bool
}

func (b *books) Reserve(_ context.Context, payer Payer, act Act, cents int64) (Charge, error) {
	if act != ActLease {
		return nil, fmt.Errorf("reserve of %s", act)
	}
	if payer != "" && cents > b.balance-b.held {
		return nil, fmt.Errorf("wallet: %w", ErrInsufficient)
	}
	b.held += cents
	return &entryCharge{b: b, cents: cents}, nil
}

func (c *entryCharge) Debit(_ context.Context, u Usage) error {
	if c.done {
		return nil
	}
	c.Release()
	if _, again := c.b.debits[u.RunID]; !again {
		c.b.debits[u.RunID] = u
		c.b.balance -= c.cents
	}
	return nil
}

func (c *entryCharge) Release() {
	if !c.done {
		c.done = true
		c.b.held -= c.cents
	}
}

func TestLease(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name           string
		hourly, cents  int64
		balance, left  int64
		held           time.Duration
		payer          string
		refused, twice bool
	}{
		{name: "free by default", held: time.Hour, payer: "w"},
		{name: "an hour", hourly: 60, cents: 60, balance: 100, left: 40, held: time.Hour, payer: "w"},
		{name: "a second is rounded up", hourly: 60, cents: 1, balance: 100, left: 99, held: time.Second, payer: "w"},
		{name: "once", hourly: 60, cents: 60, balance: 200, left: 140, held: time.Hour, payer: "w", twice: true},
		{name: "not an hour's price there", hourly: 60, balance: 59, left: 59, payer: "w", refused: true},
		{name: "more than there is", hourly: 60, cents: 0, balance: 100, left: 100, held: 2 * time.Hour, payer: "w"},
		{name: "nobody pays", hourly: 60, cents: 120, balance: 0, left: -120, held: 2 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &books{balance: tt.balance, debits: make(map[string]Usage)}
			l := leases{billing: b, hourly: func() int64 { return tt.hourly }, now: func() time.Time { return now }, log: hclog.NewNullLogger()}
			if err := l.Open(t.Context(), "acme", tt.payer); (err != nil) != tt.refused {
				t.Errorf("Open = %v, want refused %v", err, tt.refused)
			}
			if !tt.refused {
				h := session.Holding{ID: "x", Tenant: "acme", User: "u", Session: "s", Payer: tt.payer, Since: now.Add(-tt.held)}
				l.Settle(t.Context(), h)
				if tt.twice {
					l.Settle(t.Context(), h)
				}
				want := Usage{RunID: "x", Org: "acme", User: "u", Session: "s", Act: ActLease, Cents: tt.cents, Wall: tt.held}
				if got := b.debits["x"]; got != want || len(b.debits) != 1 {
					t.Errorf("debits %+v, want %+v", b.debits, want)
				}
			}
			if b.balance != tt.left || b.held != 0 {
				t.Errorf("balance %d, held %d; want %d and nothing held", b.balance, b.held, tt.left)
			}
		})
	}
	// A sandbox of unknown age costs nobody anything.
	b := &books{debits: make(map[string]Usage)}
	leases{billing: b, hourly: func() int64 { return 1 }, now: time.Now, log: hclog.NewNullLogger()}.Settle(t.Context(), session.Holding{ID: "x"})
	if len(b.debits) != 0 {
		t.Errorf("debits %+v", b.debits)
	}
}
