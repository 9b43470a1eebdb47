package host

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/caisson-run/caisson/host/session"
	"github.com/hashicorp/go-hclog"
)

// leases charges for the time that sandboxes are held: the act "lease", apart from
// runs. Its price is in cents for one hour, 0 by default, and held time is recorded
// at any price. It is settled when a sandbox ends by our hand, once for each,
// whichever replica ends it; time at the end of one that its provider ended by itself
// is nobody's. It implements session.Meter.
type leases struct {
	billing Billing
	// hourly is asked for each act: cents for one hour.
	hourly func() int64
	now    func() time.Time
	log    hclog.Logger
}

var _ session.Meter = leases{}

// Open wants the payer to have an hour's price before a sandbox is made. Nothing
// stays reserved: how long it will be held is not known.
func (l leases) Open(ctx context.Context, _, payer string) error {
	if payer == "" || l.hourly() <= 0 {
		return nil
	}
	charge, err := l.billing.Reserve(ctx, Payer(payer), ActLease, l.hourly())
	if err != nil {
		return err
	}
	charge.Release()
	return nil
}

// Settle charges the time since a sandbox was made. A payer who cannot pay any more
// has held it all the same: the time is recorded without a price.
func (l leases) Settle(ctx context.Context, h session.Holding) {
	if h.Since.IsZero() {
		return
	}
	held := max(l.now().Sub(h.Since), 0)
	cents := priceOf(held, l.hourly())
	charge, err := l.billing.Reserve(ctx, Payer(h.Payer), ActLease, cents)
	if errors.Is(err, ErrInsufficient) || errors.Is(err, ErrCap) {
		l.log.Warn("held time could not be charged", "org", h.Tenant, "session", h.Session, "cents", cents, "error", err)
		cents = 0
		charge, err = l.billing.Reserve(ctx, Payer(h.Payer), ActLease, 0)
	}
	if err == nil {
		defer charge.Release()
		err = charge.Debit(ctx, Usage{
			RunID: h.ID, Org: h.Tenant, User: h.User, Session: h.Session, Act: ActLease, Cents: cents, Wall: held,
		})
	}
	if err != nil {
		l.log.Error("held time could not be recorded", "org", h.Tenant, "session", h.Session, "cents", cents, "error", err)
	}
}

// priceOf is what held time costs, in whole cents, rounded up.
func priceOf(held time.Duration, hourly int64) int64 {
	if hourly <= 0 {
		return 0
	}
	cents := math.Ceil(held.Hours() * float64(hourly))
	if cents >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(cents)
}
