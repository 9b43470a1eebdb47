package ledger

import (
	"context"
	"database/sql"
	"errors"
)

// writer is a pool of one connection and the statements that stay prepared on it:
// parsing them takes longer than running them. Whoever has the turn uses it.
type writer struct {
	db   *sql.DB
	kept map[string]*sql.Stmt
}

func newWriter(path, pragma string) (*writer, error) {
	db, err := pool(path, 1, pragma)
	if err != nil {
		return nil, err
	}
	return &writer{db: db, kept: make(map[string]*sql.Stmt)}, nil
}

// keep prepares the statements that a transaction had to parse. A failure only
// means that they are parsed again.
func (w *writer) keep(ctx context.Context, queries []string) {
	for _, q := range queries {
		if w.kept[q] != nil {
			continue
		}
		if s, err := w.db.PrepareContext(ctx, q); err == nil {
			w.kept[q] = s
		}
	}
}

func (w *writer) close() error {
	var errs []error
	for _, s := range w.kept {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// txn is a write transaction. The queries of its own methods, which must be
// constants and single statements, are kept prepared.
type txn struct {
	*sql.Tx
	w      *writer
	parsed []string
}

// ExecContext is that of sql.Tx.
func (t *txn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if s := t.prepared(ctx, query); s != nil {
		return s.ExecContext(ctx, args...)
	}
	return t.Tx.ExecContext(ctx, query, args...)
}

// QueryRowContext is that of sql.Tx.
func (t *txn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := t.prepared(ctx, query); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return t.Tx.QueryRowContext(ctx, query, args...)
}

func (t *txn) prepared(ctx context.Context, query string) *sql.Stmt {
	if s := t.w.kept[query]; s != nil {
		return t.StmtContext(ctx, s)
	}
	t.parsed = append(t.parsed, query)
	return nil
}
