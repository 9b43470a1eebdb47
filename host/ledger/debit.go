package ledger

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/caisson-run/caisson/host"
)

// outcomeLost is the stop reason of a run whose end nobody saw.
const outcomeLost = "lost"

// maxOwed bounds the debits kept in memory while the file cannot be written.
const maxOwed = 10_000

// flushBatch bounds the debits of others that one call writes along.
const flushBatch = 16

// debit is one act to be recorded and paid.
type debit struct {
	hold, wallet, act string
	cents             int64
	usage             host.Usage
	at                time.Time
}

// write records d, takes its money and removes its hold. The run id makes it
// safe to repeat: a second record of one run is no record and no payment.
func (d debit) write(ctx context.Context, tx *txn) error {
	u := d.usage
	res, err := tx.ExecContext(ctx, `
		INSERT INTO usage (at, act, run_id, wallet, org, user, project, session, request_id,
			cents, wall, cpu, fuel, peak_memory, bytes_in, bytes_out, outcome, exit_code)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (run_id, act) DO NOTHING`,
		millis(d.at), d.act, u.RunID, d.wallet, u.Org, u.User, u.Project, u.Session, u.RequestID,
		d.cents, natural(int64(u.Wall)), natural(int64(u.CPU)), int64(min(u.Fuel, math.MaxInt64)),
		natural(u.PeakMemory), natural(u.BytesIn), natural(u.BytesOut), u.Outcome, u.ExitCode)
	if err != nil {
		return fmt.Errorf("record usage: %w", err)
	}
	recorded, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("record usage: %w", err)
	}
	if recorded == 1 && d.cents > 0 {
		// The work is done, so it is paid even if the hold had expired and the
		// balance turns negative.
		_, err := tx.ExecContext(ctx, `
			INSERT INTO wallets (wallet, balance, spent) VALUES (?1, -?2, ?2)
			ON CONFLICT (wallet) DO UPDATE SET balance = balance - ?2, spent = spent + ?2`, d.wallet, d.cents)
		if err != nil {
			return fmt.Errorf("take %d cents: %w", d.cents, err)
		}
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM holds WHERE id = ?", d.hold); err != nil {
		return fmt.Errorf("remove hold: %w", err)
	}
	return nil
}

// natural keeps figures that a plugin reported from lowering sums.
func natural(n int64) int64 { return max(n, 0) }

// owe keeps d until it can be written.
func (l *Ledger) owe(d debit) {
	l.owedMu.Lock()
	defer l.owedMu.Unlock()
	if _, ok := l.owed[d.hold]; !ok && len(l.owed) >= maxOwed {
		l.log.Error("too many unwritten debits, one is dropped", "run", d.usage.RunID, "org", d.usage.Org, "cents", d.cents)
		return
	}
	l.owed[d.hold] = d
}

func (l *Ledger) paid(d debit) {
	l.owedMu.Lock()
	defer l.owedMu.Unlock()
	delete(l.owed, d.hold)
}

// flushOwed writes up to limit owed debits, stopping at the first that fails,
// and returns how many are left. The caller has the turn.
func (l *Ledger) flushOwed(ctx context.Context, limit int) int {
	l.owedMu.Lock()
	defer l.owedMu.Unlock()
	for hold, d := range l.owed {
		if limit--; limit < 0 {
			break
		}
		if err := transact(ctx, l.durable, d.write); err != nil {
			l.log.Warn("debit still not written", "run", d.usage.RunID, "error", err)
			break
		}
		delete(l.owed, hold)
	}
	return len(l.owed)
}

// settleDead settles the holds of owners that no longer live: what started is
// debited as lost, the rest released. It also removes their owner files.
func (l *Ledger) settleDead(ctx context.Context) error {
	owners := make(map[string]bool)
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("list owners: %w", err)
	}
	for _, e := range entries {
		if isOwnerID(e.Name()) && e.Type().IsRegular() {
			owners[e.Name()] = true
		}
	}
	rows, err := l.reads.QueryContext(ctx, "SELECT DISTINCT owner FROM holds")
	if err != nil {
		return fmt.Errorf("list owners: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return fmt.Errorf("list owners: %w", err)
		}
		owners[id] = true
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("list owners: %w", err)
	}
	delete(owners, l.owner.id)
	for id := range owners {
		dead, done, err := seize(l.dir, id)
		if err != nil {
			return err
		}
		if !dead {
			continue
		}
		err = l.settleOwner(ctx, id)
		done(err == nil)
		if err != nil {
			return fmt.Errorf("settle a dead owner: %w", err)
		}
	}
	return nil
}

func (l *Ledger) settleOwner(ctx context.Context, id string) error {
	var lost []debit
	var released int64
	err := l.write(ctx, l.durable, func(ctx context.Context, tx *txn) error {
		var err error
		if lost, err = startedHolds(ctx, tx, id); err != nil {
			return err
		}
		for _, d := range lost {
			d.at = l.now()
			if err := d.write(ctx, tx); err != nil {
				return err
			}
		}
		res, err := tx.ExecContext(ctx, "DELETE FROM holds WHERE owner = ?", id)
		if err != nil {
			return fmt.Errorf("release holds: %w", err)
		}
		released, err = res.RowsAffected()
		return err
	})
	if err == nil && len(lost)+int(released) > 0 {
		l.log.Warn("settled what a dead process left behind", "debited", len(lost), "released", released)
	}
	return err
}

// startedHolds reads the debts of an owner as lost debits.
func startedHolds(ctx context.Context, tx *txn, owner string) ([]debit, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT id, wallet, act, cents, run_id, org, user, project, session, request_id
		FROM holds WHERE owner = ? AND started IS NOT NULL`, owner)
	if err != nil {
		return nil, fmt.Errorf("read debts: %w", err)
	}
	defer rows.Close()
	var debts []debit
	for rows.Next() {
		d := debit{usage: host.Usage{Outcome: outcomeLost}}
		u := &d.usage
		if err := rows.Scan(&d.hold, &d.wallet, &d.act, &d.cents,
			&u.RunID, &u.Org, &u.User, &u.Project, &u.Session, &u.RequestID); err != nil {
			return nil, fmt.Errorf("read debts: %w", err)
		}
		debts = append(debts, d)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read debts: %w", err)
	}
	return debts, nil
}
