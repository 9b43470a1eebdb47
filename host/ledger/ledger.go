package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/caisson-run/caisson/host"
)

const (
	defaultHoldTTL = 10 * time.Minute
	// patience bounds one call, waiting for other writers included.
	patience = 5 * time.Second
	// busyRetry is the pause between attempts that SQLite refused as busy
	// without waiting by itself.
	busyRetry = 10 * time.Millisecond
)

// Options configure a Ledger; the zero value is usable.
type Options struct {
	// HoldTTL is how long a hold counts if its act neither starts nor is
	// released; 0 means 10 minutes. It must cover the time from admission to
	// the start of the program, queueing included.
	HoldTTL time.Duration
	// Log receives what no caller can be told: failed releases, settled
	// crashes. Nil discards it.
	Log hclog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Ledger is host.Billing on one SQLite file. All methods are safe for
// concurrent use.
type Ledger struct {
	log     hclog.Logger
	now     func() time.Time
	holdTTL time.Duration
	owner   *owner
	dir     string // of the owner files

	// Three pools on one file. The writers hold one connection each: quick
	// commits without waiting for the disk, durable waits; reads is read-only.
	quick, durable *writer
	reads          *sql.DB

	// turn is held by the writer of this process; it orders writers by arrival
	// where SQLite's own lock would have them poll.
	turn   chan struct{}
	closed bool // guarded by turn

	owedMu sync.Mutex
	owed   map[string]debit // by hold id: debits that could not be written yet
}

var _ host.Billing = (*Ledger)(nil)

// Open opens or creates the ledger at path, settles what dead processes left
// behind and returns it. The directory of path must exist; the file is created
// with mode 0600 and must lie on a local file system. Errors name the path.
func Open(ctx context.Context, path string, opt Options) (*Ledger, error) {
	l, err := open(ctx, path, opt)
	if err != nil {
		return nil, fmt.Errorf("ledger %s: %w", path, err)
	}
	return l, nil
}

func open(ctx context.Context, path string, opt Options) (_ *Ledger, err error) {
	if opt.HoldTTL < 0 {
		return nil, fmt.Errorf("hold ttl %v is negative", opt.HoldTTL)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	// Created here for its mode, which SQLite gives to its side files too. An
	// existing file is not even opened: closing it would drop the POSIX locks
	// that SQLite holds on it elsewhere in this process.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		if err := file.Close(); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrExist):
		return nil, err
	}

	l := &Ledger{
		log: opt.Log, now: opt.Now, holdTTL: opt.HoldTTL, dir: path + "-owners",
		turn: make(chan struct{}, 1), owed: make(map[string]debit),
	}
	if l.log == nil {
		l.log = hclog.NewNullLogger()
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.holdTTL == 0 {
		l.holdTTL = defaultHoldTTL
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.shut())
		}
	}()
	if l.owner, err = newOwner(l.dir); err != nil {
		return nil, err
	}
	if l.durable, err = newWriter(path, "synchronous(FULL)"); err != nil {
		return nil, err
	}
	if l.quick, err = newWriter(path, "synchronous(NORMAL)"); err != nil {
		return nil, err
	}
	if l.reads, err = pool(path, 4, "query_only(1)"); err != nil {
		return nil, err
	}
	if err := l.write(ctx, l.durable, func(ctx context.Context, tx *txn) error { return migrate(ctx, tx.Tx) }); err != nil {
		return nil, err
	}
	if err := l.settleDead(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// pool opens at most n connections with the pragmas all of ours share.
func pool(path string, n int, pragma string) (*sql.DB, error) {
	q := url.Values{
		"_txlock": {"immediate"},
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", patience.Milliseconds()),
			"journal_mode(WAL)", "trusted_schema(0)", pragma,
		},
	}
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// Close writes the debits that are still owed, releases the holds of acts that
// never started and closes the file. Started charges that were not debited stay
// behind as debts; the next Open settles them. Charges used after Close fail.
// A second Close does nothing.
func (l *Ledger) Close() error {
	l.turn <- struct{}{} // for no longer than patience: every writer is bounded
	defer func() { <-l.turn }()
	if l.closed {
		return nil
	}
	l.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := transact(ctx, l.durable, func(ctx context.Context, tx *txn) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM holds WHERE owner = ? AND started IS NULL", l.owner.id)
		return err
	})
	if left := l.flushOwed(ctx, maxOwed); left > 0 {
		err = errors.Join(err, fmt.Errorf("%d debits could not be written; those whose start is recorded are settled by the next open", left))
	}
	if err = errors.Join(err, l.shut()); err != nil {
		return fmt.Errorf("ledger: close: %w", err)
	}
	return nil
}

// shut closes what open opened.
func (l *Ledger) shut() error {
	var errs []error
	if l.reads != nil {
		errs = append(errs, l.reads.Close())
	}
	for _, w := range []*writer{l.quick, l.durable} {
		if w != nil {
			errs = append(errs, w.close())
		}
	}
	if l.owner != nil {
		errs = append(errs, l.owner.close())
	}
	return errors.Join(errs...)
}

var errClosed = errors.New("the ledger is closed")

// write runs fn in a write transaction of w, within patience and ctx. It
// either commits all of fn and returns nil, or changes nothing. A success is
// the moment to write owed debits too.
func (l *Ledger) write(ctx context.Context, w *writer, fn func(context.Context, *txn) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return fmt.Errorf("wait for other writers: %w", ctx.Err())
	}
	if l.closed {
		return errClosed
	}
	if err := transact(ctx, w, fn); err != nil {
		return err
	}
	l.flushOwed(ctx, flushBatch)
	return nil
}

// transact retries while SQLite says busy. Most waits happen inside SQLite
// (busy_timeout); recovery of a WAL and the switch to it refuse at once.
func transact(ctx context.Context, w *writer, fn func(context.Context, *txn) error) error {
	for {
		err := attempt(ctx, w, fn)
		if !isBusy(err) {
			return err
		}
		pause := time.NewTimer(busyRetry)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return err
		}
	}
}

func attempt(ctx context.Context, w *writer, fn func(context.Context, *txn) error) error {
	begun, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	tx := &txn{Tx: begun, w: w}
	defer func() { _ = tx.Rollback() }() // no-op after Commit; also on panic
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	w.keep(ctx, tx.parsed)
	return nil
}

func isBusy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_BUSY || e.Code()&0xff == sqlite3.SQLITE_LOCKED)
}

// unavailable wraps err so that callers see host.ErrUnavailable.
func unavailable(what string, err error) error {
	return fmt.Errorf("ledger: %s: %w: %w", what, host.ErrUnavailable, err)
}

func millis(t time.Time) int64 { return t.UnixMilli() }
