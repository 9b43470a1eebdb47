package ledger

import (
	"context"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/caisson-run/caisson/host"
)

// Record is one line of the usage record. Its Cents are what was paid, which
// is 0 for acts without a payer whatever their price.
type Record struct {
	// ID grows with every record.
	ID int64
	// Time is when the act was settled, in milliseconds.
	Time time.Time
	// Payer is the wallet; empty for unbilled acts.
	Payer host.Payer
	host.Usage
}

// Filter selects records; zero fields select all.
type Filter struct {
	// Org, Payer, Session, RunID and Act must be equal.
	Org     string
	Payer   host.Payer
	Session string
	RunID   string
	Act     host.Act
	// Since is inclusive, Until exclusive.
	Since, Until time.Time
	// After selects records with a greater ID: the last one seen, to go on from.
	After int64
}

// page is how many records are read at once. Between pages no transaction is
// open, so a slow reader does not keep the WAL from being checkpointed.
const page = 500

// Usage iterates over matching records in the order of their ids, those
// written meanwhile included. An error ends the iteration.
func (l *Ledger) Usage(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		after := f.After
		for {
			records, err := l.usagePage(ctx, f, after)
			if err != nil {
				yield(Record{}, fmt.Errorf("ledger: usage: %w", err))
				return
			}
			for _, r := range records {
				if !yield(r, nil) {
					return
				}
				after = r.ID
			}
			if len(records) < page {
				return
			}
		}
	}
}

func (l *Ledger) usagePage(ctx context.Context, f Filter, after int64) ([]Record, error) {
	since, until := int64(math.MinInt64), int64(math.MaxInt64)
	if !f.Since.IsZero() {
		since = millis(f.Since)
	}
	if !f.Until.IsZero() {
		until = millis(f.Until)
	}
	query := `SELECT id, at, act, run_id, wallet, org, user, project, session, request_id,
			cents, wall, cpu, fuel, peak_memory, bytes_in, bytes_out, outcome, exit_code
		FROM usage WHERE id > ? AND at >= ? AND at < ?`
	args := []any{after, since, until}
	for _, c := range []struct{ column, value string }{
		{"org", f.Org},
		{"wallet", string(f.Payer)},
		{"session", f.Session},
		{"run_id", f.RunID},
		{"act", string(f.Act)},
	} {
		if c.value != "" {
			query += " AND " + c.column + " = ?"
			args = append(args, c.value)
		}
	}
	rows, err := l.reads.QueryContext(ctx, query+" ORDER BY id LIMIT ?", append(args, page)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var records []Record
	for rows.Next() {
		var r Record
		var at, fuel int64
		if err := rows.Scan(&r.ID, &at, &r.Act, &r.RunID, &r.Payer, &r.Org, &r.User, &r.Project, &r.Session, &r.RequestID,
			&r.Cents, &r.Wall, &r.CPU, &fuel, &r.PeakMemory, &r.BytesIn, &r.BytesOut, &r.Outcome, &r.ExitCode); err != nil {
			return nil, err
		}
		r.Time, r.Fuel = time.UnixMilli(at).UTC(), uint64(fuel)
		records = append(records, r)
	}
	return records, rows.Err()
}
