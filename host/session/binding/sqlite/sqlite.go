// Package sqlite keeps bindings in memory and in an SQLite file, for deployments of one
// process that must not lose traffic tokens when it restarts: some providers issue
// them only once. Locks, turns and work end with the process; nobody else has any.
//
// A change is on the disk before it counts. The file holds bearer secrets and has mode
// 0600. It belongs to one process at a time, which whoever opens it sees to, and must
// lie on a local file system.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/caisson-run/caisson/host/session/binding"
	"github.com/caisson-run/caisson/host/session/binding/memory"
)

const (
	// applicationID marks the file as ours (SQLite header, "CaiB").
	applicationID = 0x43616942
	schema        = `CREATE TABLE bindings (
		tenant   TEXT NOT NULL, session TEXT NOT NULL,
		provider TEXT NOT NULL, config  TEXT NOT NULL,
		sandbox  TEXT NOT NULL, template TEXT NOT NULL,
		created  INTEGER NOT NULL, -- Unix ms
		stale    INTEGER,          -- Unix ms
		token    TEXT NOT NULL,
		PRIMARY KEY (tenant, session)
	) STRICT, WITHOUT ROWID`
)

// New opens or creates the file at path and returns a store of what is in it. The
// directory must exist. A file of another program or of a newer version, and one that
// is damaged, is refused and left as it is.
func New(ctx context.Context, path string, o binding.Options) (*binding.Store, error) {
	e, err := NewEngine(ctx, path, memory.Options{})
	if err != nil {
		return nil, err
	}
	s, err := binding.New(e, o)
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	return s, nil
}

// engine reports what kind it is.
type engine struct{ *memory.Engine }

func (e engine) Check(ctx context.Context) (binding.Report, error) {
	r, err := e.Engine.Check(ctx)
	r.Kind = "sqlite"
	return r, err
}

// NewEngine is New without the store; o's journal is replaced.
func NewEngine(ctx context.Context, path string, o memory.Options) (_ binding.Engine, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bindings in %s: %w", path, err)
		}
	}()
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	// Created here for its mode, which SQLite gives to its side files too.
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(2000)", "journal_mode(WAL)", "synchronous(FULL)", "trusted_schema(0)", "secure_delete(1)",
	}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	known, err := load(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	o.Journal = &journal{db}
	return engine{memory.NewEngine(o, known...)}, nil
}

// load brings an empty file to the schema, and reads every binding of a file that has it.
func load(ctx context.Context, db *sql.DB) ([]binding.Binding, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	var app, version, objects int
	for query, to := range map[string]*int{
		"PRAGMA application_id": &app, "PRAGMA user_version": &version, "SELECT count(*) FROM sqlite_schema": &objects,
	} {
		if err := tx.QueryRowContext(ctx, query).Scan(to); err != nil {
			return nil, fmt.Errorf("read schema version: %w", err)
		}
	}
	switch {
	case app == 0 && version == 0 && objects == 0:
		for _, statement := range []string{
			schema, fmt.Sprintf("PRAGMA application_id = %d", applicationID), fmt.Sprintf("PRAGMA user_version = %d", binding.Version),
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return nil, fmt.Errorf("create schema: %w", err)
			}
		}
		return nil, tx.Commit()
	case app != applicationID:
		return nil, errors.New("the file is a database of another program; name another path")
	case version != binding.Version:
		return nil, &binding.SchemaError{Version: fmt.Sprint(version)}
	}
	rows, err := tx.QueryContext(ctx, "SELECT tenant, session, provider, config, sandbox, template, created, stale, token FROM bindings")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var known []binding.Binding
	for rows.Next() {
		var b binding.Binding
		var created int64
		var stale sql.NullInt64
		if err := rows.Scan(&b.Tenant, &b.Session, &b.Provider, &b.Config, &b.Sandbox, &b.Template, &created, &stale, &b.Token); err != nil {
			return nil, err
		}
		b.Created = time.UnixMilli(created).UTC()
		if stale.Valid {
			b.Stale = time.UnixMilli(stale.Int64).UTC()
		}
		if err := b.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %v: %w", binding.ErrCorrupt, b.Key, err)
		}
		known = append(known, b)
	}
	return known, rows.Err()
}

// journal implements memory.Journal.
type journal struct{ db *sql.DB }

// patience bounds a write, which is not given up half-way when its caller leaves.
const patience = 5 * time.Second

func (j *journal) Put(ctx context.Context, list ...binding.Binding) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	tx, err := j.db.BeginTx(ctx, nil)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, b := range list {
		stale := sql.NullInt64{Int64: b.Stale.UnixMilli(), Valid: !b.Stale.IsZero()}
		_, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO bindings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
			b.Tenant, b.Session, b.Provider, b.Config, b.Sandbox, b.Template, b.Created.UnixMilli(), stale, b.Token)
		if err != nil {
			return failed(err)
		}
	}
	return failed(tx.Commit())
}

func (j *journal) Delete(ctx context.Context, key binding.Key) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_, err := j.db.ExecContext(ctx, "DELETE FROM bindings WHERE tenant = ? AND session = ?", key.Tenant, key.Session)
	return failed(err)
}

func (j *journal) Close() error { return j.db.Close() }

// failed is the error of a file that could not be written.
func failed(err error) error {
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &binding.Error{Reason: binding.Full, RetryAfter: 5 * time.Second, Err: err}
}
