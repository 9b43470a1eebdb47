package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caisson-run/caisson/host"
)

// releasePatience bounds Release, which has no context and sits in defers.
const releasePatience = time.Second

// Reserve implements host.Billing: it holds cents of the wallet payer if the
// balance covers them beside all other holds, in one transaction, so parallel
// calls, also of other processes, cannot share a cent. A zero payer or price
// gives a charge that only records; it does not touch the file.
//
// Errors wrap host.ErrInsufficient (an unknown wallet included), host.ErrCap or,
// for anything that keeps the answer from being known, host.ErrUnavailable.
func (l *Ledger) Reserve(ctx context.Context, payer host.Payer, act host.Act, cents int64) (host.Charge, error) {
	c := &charge{ledger: l, debit: debit{hold: rand.Text(), wallet: string(payer), act: string(act)}}
	if payer == "" || cents <= 0 {
		return c, nil
	}
	c.debit.cents = cents
	err := l.write(ctx, l.quick, func(ctx context.Context, tx *txn) error {
		return l.hold(ctx, tx, c.debit)
	})
	switch {
	case err == nil:
		return c, nil
	case errors.Is(err, host.ErrInsufficient), errors.Is(err, host.ErrCap):
		return nil, fmt.Errorf("ledger: reserve %d cents for %s: %w", cents, act, err)
	default:
		return nil, unavailable("reserve", err)
	}
}

// hold authorises d against the wallet and writes the hold.
func (l *Ledger) hold(ctx context.Context, tx *txn, d debit) error {
	now := l.now()
	if _, err := tx.ExecContext(ctx, "DELETE FROM holds WHERE wallet = ? AND expires <= ?", d.wallet, millis(now)); err != nil {
		return fmt.Errorf("drop expired holds: %w", err)
	}
	w, err := readWallet(ctx, tx, d.wallet, millis(now))
	if err != nil {
		return err
	}
	// Differences, not sums: cents may be anything up to the largest int64.
	if d.cents > w.Balance-w.Held {
		return host.ErrInsufficient
	}
	if w.Cap != NoCap && d.cents > w.Cap-w.Spent-w.Held {
		return host.ErrCap
	}
	_, err = tx.ExecContext(ctx,
		"INSERT INTO holds (id, owner, wallet, act, cents, expires) VALUES (?, ?, ?, ?, ?, ?)",
		d.hold, l.owner.id, d.wallet, d.act, d.cents, millis(now.Add(l.holdTTL)))
	if err != nil {
		return fmt.Errorf("write hold: %w", err)
	}
	return nil
}

type chargeState int

const (
	held    chargeState = iota
	started             // recorded as a debt
	owed                // Debit was asked for and could not be written
	settled             // debited or released
)

// charge is one hold. The mutex is kept during its own transactions, each of
// which is bounded, so that Started, Debit and Release have an order.
type charge struct {
	ledger *Ledger

	mu    sync.Mutex
	state chargeState
	debit debit
}

var (
	_ host.Charge        = (*charge)(nil)
	_ host.ChargeStarter = (*charge)(nil)
)

// Started implements host.ChargeStarter. From here on the act is owed: also
// Release, which then means that its outcome was lost.
func (c *charge) Started(ctx context.Context, u host.Usage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state {
	case started:
		return nil
	case held:
	default:
		return errors.New("ledger: start: the charge is settled already")
	}
	d := c.debit
	d.usage = u
	if d.usage.RunID == "" {
		d.usage.RunID = d.hold
	}
	// Unbilled and expired charges have no hold row yet or any more.
	err := c.ledger.write(ctx, c.ledger.quick, func(ctx context.Context, tx *txn) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO holds (id, owner, wallet, act, cents, started, run_id, org, user, project, session, request_id)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET expires = NULL, started = excluded.started, run_id = excluded.run_id,
				org = excluded.org, user = excluded.user, project = excluded.project,
				session = excluded.session, request_id = excluded.request_id`,
			d.hold, c.ledger.owner.id, d.wallet, d.act, d.cents, millis(c.ledger.now()), d.usage.RunID,
			u.Org, u.User, u.Project, u.Session, u.RequestID)
		return err
	})
	if err != nil {
		return unavailable("start", err)
	}
	c.debit, c.state = d, started
	return nil
}

// Debit implements host.Charge. It is keyed by the run id that Started was
// given, else by u.RunID, else by the charge itself. If it fails, the debit is
// kept in memory and written with the next success of any write, by Close, or
// by calling Debit again; what Started recorded outlives the process as well.
func (c *charge) Debit(ctx context.Context, u host.Usage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == held || c.state == started {
		c.debit.usage = complete(u, c.debit)
		c.debit.at = c.ledger.now()
	}
	return c.settle(ctx)
}

// Release implements host.Charge. A charge that has started is not given back
// but debited with the outcome "lost": the program ran, and whoever should have
// reported its end (a handler that panicked, say) did not.
func (c *charge) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	log := c.ledger.log
	switch c.state {
	case held:
		c.state = settled
		if c.debit.cents == 0 {
			return
		}
		err := c.ledger.write(ctx, c.ledger.quick, func(ctx context.Context, tx *txn) error {
			_, err := tx.ExecContext(ctx, "DELETE FROM holds WHERE id = ?", c.debit.hold)
			return err
		})
		if err != nil && !errors.Is(err, errClosed) { // Close has released it
			log.Warn("hold not released, it counts until it expires", "cents", c.debit.cents, "error", err)
		}
	case started:
		c.debit.usage.Outcome = outcomeLost
		c.debit.at = c.ledger.now()
		if err := c.settle(ctx); err != nil {
			log.Error("started act released and not debited yet", "run", c.debit.usage.RunID, "error", err)
		}
	}
}

// settle writes the debit unless the charge is settled already.
func (c *charge) settle(ctx context.Context) error {
	if c.state == settled {
		return nil
	}
	c.state = owed
	d, l := c.debit, c.ledger
	if err := l.write(ctx, l.durable, d.write); err != nil {
		l.owe(d)
		return unavailable(fmt.Sprintf("debit of run %q kept for a retry", d.usage.RunID), err)
	}
	c.state = settled
	l.paid(d)
	return nil
}

// complete fills what u leaves out with what the charge knows. The act and
// amount of the reservation and the run id of the start always win.
func complete(u host.Usage, d debit) host.Usage {
	for _, f := range []struct{ to, from *string }{
		{&u.Org, &d.usage.Org},
		{&u.User, &d.usage.User},
		{&u.Project, &d.usage.Project},
		{&u.Session, &d.usage.Session},
		{&u.RequestID, &d.usage.RequestID},
	} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
	switch {
	case d.usage.RunID != "":
		u.RunID = d.usage.RunID
	case u.RunID == "":
		u.RunID = d.hold
	}
	return u
}
