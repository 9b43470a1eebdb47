package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

const (
	schemaVersion = 1
	// applicationID marks the file as ours (SQLite header, "Cais").
	applicationID = 0x43616973
)

// Times are Unix milliseconds, durations nanoseconds. A hold with a start time
// is a debt and has no expiry; the empty wallet belongs to nobody.
const schema = `
CREATE TABLE wallets (
	wallet  TEXT    NOT NULL PRIMARY KEY CHECK (wallet <> ''),
	balance INTEGER NOT NULL DEFAULT 0,
	spent   INTEGER NOT NULL DEFAULT 0,
	cap     INTEGER CHECK (cap >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE credits (
	ref    TEXT    NOT NULL PRIMARY KEY,
	wallet TEXT    NOT NULL,
	cents  INTEGER NOT NULL CHECK (cents > 0),
	at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE holds (
	id         TEXT    NOT NULL PRIMARY KEY,
	owner      TEXT    NOT NULL,
	wallet     TEXT    NOT NULL,
	act        TEXT    NOT NULL,
	cents      INTEGER NOT NULL CHECK (cents >= 0),
	expires    INTEGER,
	started    INTEGER,
	run_id     TEXT,
	org        TEXT,
	user       TEXT,
	project    TEXT,
	session    TEXT,
	request_id TEXT,
	CHECK ((started IS NULL) = (expires IS NOT NULL)),
	CHECK ((started IS NULL) = (run_id IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX holds_wallet ON holds (wallet);
CREATE INDEX holds_owner  ON holds (owner);

CREATE TABLE usage (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	at          INTEGER NOT NULL,
	act         TEXT    NOT NULL,
	run_id      TEXT    NOT NULL,
	wallet      TEXT    NOT NULL,
	org         TEXT    NOT NULL,
	user        TEXT    NOT NULL,
	project     TEXT    NOT NULL,
	session     TEXT    NOT NULL,
	request_id  TEXT    NOT NULL,
	cents       INTEGER NOT NULL CHECK (cents >= 0),
	wall        INTEGER NOT NULL,
	cpu         INTEGER NOT NULL,
	fuel        INTEGER NOT NULL,
	peak_memory INTEGER NOT NULL,
	bytes_in    INTEGER NOT NULL,
	bytes_out   INTEGER NOT NULL,
	outcome     TEXT    NOT NULL,
	exit_code   INTEGER NOT NULL,
	UNIQUE (run_id, act)
) STRICT;
CREATE INDEX usage_org ON usage (org, id);

CREATE TRIGGER usage_no_update BEFORE UPDATE ON usage
BEGIN SELECT RAISE(ABORT, 'usage is append-only'); END;
CREATE TRIGGER usage_no_delete BEFORE DELETE ON usage
BEGIN SELECT RAISE(ABORT, 'usage is append-only'); END;
`

// migrate brings an empty file to the current schema and refuses a file that
// is another program's or a newer version's. It runs inside a write
// transaction, so processes that open a new file together do not collide.
func migrate(ctx context.Context, tx *sql.Tx) error {
	var version, app, objects int
	for _, q := range []struct {
		query string
		to    *int
	}{
		{"PRAGMA user_version", &version},
		{"PRAGMA application_id", &app},
		{"SELECT count(*) FROM sqlite_schema", &objects},
	} {
		if err := tx.QueryRowContext(ctx, q.query).Scan(q.to); err != nil {
			return fmt.Errorf("read schema version: %w", err)
		}
	}
	switch {
	case app == 0 && version == 0 && objects == 0:
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return fmt.Errorf("create schema: %w", err)
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaVersion))
		if err != nil {
			return fmt.Errorf("stamp schema version: %w", err)
		}
		return nil
	case app != applicationID:
		return fmt.Errorf("the file is a database of another program; name another path")
	case version > schemaVersion:
		return fmt.Errorf("the file has schema version %d and this program knows %d; use the program that wrote it or a newer one", version, schemaVersion)
	case version < schemaVersion:
		return fmt.Errorf("the file has schema version %d, which no release wrote", version)
	}
	return nil
}
