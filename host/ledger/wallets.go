package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caisson-run/caisson/host"
)

// NoCap as a cap means that nothing but the balance limits spending.
const NoCap int64 = -1

// maxCents keeps every sum of the ledger far from overflow (2^53, some 90
// thousand billion units of a currency with cents).
const maxCents = 1 << 53

// Balance is the state of one wallet in whole cents. A wallet nobody has
// credited has the zero balance and no cap.
type Balance struct {
	// Balance is credits less debits. It can be below zero by acts that ended
	// after their hold had expired.
	Balance int64
	// Held is the part of Balance that running and reserved acts may still take.
	Held int64
	// Spent is the sum of all debits ever.
	Spent int64
	// Cap is the value of Spent that must not be passed, or NoCap.
	Cap int64
}

// Credit adds cents (1 to 2^53) to a wallet, once per ref: repeating a call
// does nothing, and the same ref for another wallet or amount is an error. ref
// is the caller's own name for the payment.
func (l *Ledger) Credit(ctx context.Context, wallet host.Payer, cents int64, ref string) error {
	_, err := l.CreditOnce(ctx, wallet, cents, ref)
	return err
}

// CreditOnce is Credit, and tells whether this call added the cents: false where
// an earlier one with the same ref had.
func (l *Ledger) CreditOnce(ctx context.Context, wallet host.Payer, cents int64, ref string) (added bool, err error) {
	if err := errors.Join(checkName("wallet", string(wallet)), checkName("ref", ref)); err != nil {
		return false, fmt.Errorf("ledger: credit: %w", err)
	}
	if cents <= 0 || cents > maxCents {
		return false, fmt.Errorf("ledger: credit: cents %d is not from 1 to %d", cents, int64(maxCents))
	}
	err = l.write(ctx, l.durable, func(ctx context.Context, tx *txn) error {
		res, err := tx.ExecContext(ctx, `
			INSERT INTO credits (ref, wallet, cents, at) VALUES (?, ?, ?, ?) ON CONFLICT (ref) DO NOTHING`,
			ref, string(wallet), cents, millis(l.now()))
		if err != nil {
			return err
		}
		rows, err := res.RowsAffected()
		if err != nil {
			return err
		}
		if added = rows > 0; !added { // fn may run again
			return sameCredit(ctx, tx, wallet, cents, ref)
		}
		var balance int64
		err = tx.QueryRowContext(ctx, `
			INSERT INTO wallets (wallet, balance) VALUES (?1, ?2)
			ON CONFLICT (wallet) DO UPDATE SET balance = balance + ?2 RETURNING balance`,
			string(wallet), cents).Scan(&balance)
		if err != nil {
			return err
		}
		if balance > maxCents {
			return fmt.Errorf("the balance would pass %d cents", int64(maxCents))
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("ledger: credit %q: %w", ref, err)
	}
	return added, nil
}

func sameCredit(ctx context.Context, tx *txn, wallet host.Payer, cents int64, ref string) error {
	var oldWallet string
	var oldCents int64
	if err := tx.QueryRowContext(ctx, "SELECT wallet, cents FROM credits WHERE ref = ?", ref).Scan(&oldWallet, &oldCents); err != nil {
		return err
	}
	if oldWallet != string(wallet) || oldCents != cents {
		return fmt.Errorf("the ref is used for %d cents to wallet %q; use another ref for another payment", oldCents, oldWallet)
	}
	return nil
}

// SetCap limits what a wallet may spend in total: a reservation that could
// take Balance.Spent past cents is refused with host.ErrCap. NoCap lifts the
// limit. For a monthly allowance set it each month to Spent plus the allowance.
func (l *Ledger) SetCap(ctx context.Context, wallet host.Payer, cents int64) error {
	if err := checkName("wallet", string(wallet)); err != nil {
		return fmt.Errorf("ledger: set cap: %w", err)
	}
	if cents < NoCap || cents > maxCents {
		return fmt.Errorf("ledger: set cap: cents %d is neither NoCap nor from 0 to %d", cents, int64(maxCents))
	}
	limit := sql.NullInt64{Int64: cents, Valid: cents != NoCap}
	err := l.write(ctx, l.durable, func(ctx context.Context, tx *txn) error {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO wallets (wallet, cap) VALUES (?1, ?2) ON CONFLICT (wallet) DO UPDATE SET cap = ?2`,
			string(wallet), limit)
		return err
	})
	if err != nil {
		return fmt.Errorf("ledger: set cap: %w", err)
	}
	return nil
}

// Balance returns the state of a wallet.
func (l *Ledger) Balance(ctx context.Context, wallet host.Payer) (Balance, error) {
	b, err := readWallet(ctx, l.reads, string(wallet), millis(l.now()))
	if err != nil {
		return Balance{}, fmt.Errorf("ledger: balance: %w", err)
	}
	return b, nil
}

// Standing reports whether payer may consume something that is not billed
// itself: nil for a positive balance and for the zero payer, otherwise an error
// that wraps host.ErrInsufficient, host.ErrCap or host.ErrUnavailable. Holds do
// not count: a customer whose last cent is at work is still one.
func (l *Ledger) Standing(ctx context.Context, payer host.Payer) error {
	if payer == "" {
		return nil
	}
	b, err := readWallet(ctx, l.reads, string(payer), millis(l.now()))
	switch {
	case err != nil:
		return unavailable("standing", err)
	case b.Balance <= 0:
		return fmt.Errorf("ledger: standing: %w", host.ErrInsufficient)
	case b.Cap != NoCap && b.Spent >= b.Cap:
		return fmt.Errorf("ledger: standing: %w", host.ErrCap)
	}
	return nil
}

// querier is *sql.DB or *txn.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func readWallet(ctx context.Context, q querier, wallet string, now int64) (Balance, error) {
	b := Balance{Cap: NoCap}
	err := q.QueryRowContext(ctx, `
		SELECT coalesce(w.balance, 0), coalesce(w.spent, 0), coalesce(w.cap, ?3),
			(SELECT coalesce(sum(cents), 0) FROM holds WHERE wallet = ?1 AND (expires IS NULL OR expires > ?2))
		FROM (SELECT 1) LEFT JOIN wallets AS w ON w.wallet = ?1`,
		wallet, now, NoCap).Scan(&b.Balance, &b.Spent, &b.Cap, &b.Held)
	if err != nil {
		return Balance{}, fmt.Errorf("read wallet: %w", err)
	}
	return b, nil
}

// checkName refuses names that could not be told apart on a screen or found again.
func checkName(field, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", field)
	case len(name) > 256:
		return fmt.Errorf("%s is longer than 256 bytes", field)
	case !utf8.ValidString(name), strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }), strings.TrimSpace(name) != name:
		return fmt.Errorf("%s %q must be printable text without space around it", field, name)
	}
	return nil
}
