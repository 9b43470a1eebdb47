package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
)

// raw is a second, unknowing program on the same file.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func run(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// While the file cannot be written nothing priced is admitted; debits wait in
// memory and are written with the first success, once.
func TestUnwritable(t *testing.T) {
	path := dbPath(t)
	l := openAt(t, path, ledger.Options{})
	credit(t, l, "acme", 10)
	running, unstarted := reserve(t, l, "acme", 1), reserve(t, l, "acme", 1)
	start(t, running, host.Usage{RunID: "running", Org: "acme"})

	other := raw(t, path)
	run(t, other, "BEGIN IMMEDIATE")
	if _, err := l.Reserve(soon(t), "acme", host.ActRun, 1); !errors.Is(err, host.ErrUnavailable) {
		t.Errorf("Reserve = %v", err)
	}
	if err := unstarted.(host.ChargeStarter).Started(soon(t), host.Usage{RunID: "late"}); !errors.Is(err, host.ErrUnavailable) {
		t.Errorf("Started = %v", err)
	}
	for range 2 {
		if err := running.Debit(soon(t), host.Usage{RunID: "running", Outcome: "exit"}); !errors.Is(err, host.ErrUnavailable) {
			t.Errorf("Debit = %v", err)
		}
	}
	running.Release() // too late: the debit was asked for first
	if err := l.Standing(t.Context(), "acme"); err != nil {
		t.Errorf("Standing needs no write and says %v", err)
	}
	free := reserve(t, l, "", 1) // neither does what nobody pays

	run(t, other, "ROLLBACK")
	wantBalance(t, l, "acme", 10, 2, 0)
	unstarted.Release() // a write that succeeds
	wantBalance(t, l, "acme", 9, 0, 1)
	if err := running.Debit(t.Context(), host.Usage{RunID: "running"}); err != nil {
		t.Errorf("Debit again = %v", err)
	}
	if err := free.Debit(t.Context(), host.Usage{RunID: "free"}); err != nil {
		t.Error(err)
	}
	wantBalance(t, l, "acme", 9, 0, 1)
	got := usage(t, l, ledger.Filter{RunID: "running"})
	if len(got) != 1 || got[0].Outcome != "exit" || got[0].Org != "acme" {
		t.Errorf("usage = %+v", got)
	}
}

// Close is the last chance of a debit that could not be written.
func TestCloseWritesOwedDebits(t *testing.T) {
	path := dbPath(t)
	watch := openAt(t, path, ledger.Options{})
	credit(t, watch, "acme", 10)
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := reserve(t, l, "acme", 1)
	other := raw(t, path)
	run(t, other, "BEGIN IMMEDIATE")
	if err := c.Debit(soon(t), host.Usage{RunID: "r", Outcome: "exit"}); err == nil {
		t.Error("Debit succeeds on a locked file")
	}
	run(t, other, "ROLLBACK")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, watch, "acme", 9, 0, 1)
}

func TestBrokenFile(t *testing.T) {
	path := dbPath(t)
	l := openAt(t, path, ledger.Options{})
	credit(t, l, "acme", 10)
	run(t, raw(t, path), "ALTER TABLE wallets RENAME TO gone")
	if _, err := l.Reserve(t.Context(), "acme", host.ActRun, 1); !errors.Is(err, host.ErrUnavailable) {
		t.Errorf("Reserve = %v", err)
	}
	if err := l.Standing(t.Context(), "acme"); !errors.Is(err, host.ErrUnavailable) {
		t.Errorf("Standing = %v", err)
	}
}

func TestClosed(t *testing.T) {
	l, err := ledger.Open(t.Context(), dbPath(t), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Reserve(t.Context(), "acme", host.ActRun, 1); !errors.Is(err, host.ErrUnavailable) {
		t.Errorf("Reserve = %v", err)
	}
	if err := l.Standing(t.Context(), "acme"); !errors.Is(err, host.ErrUnavailable) {
		t.Errorf("Standing = %v", err)
	}
	if err := l.Credit(t.Context(), "acme", 1, "r"); err == nil {
		t.Error("Credit succeeds")
	}
}

func TestOpenRefuses(t *testing.T) {
	sqlFile := func(statements string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			db := raw(t, path)
			run(t, db, statements)
			db.Close()
		}
	}
	tests := []struct {
		name    string
		prepare func(t *testing.T, path string)
		opt     ledger.Options
		want    string
	}{
		{"newer schema", func(t *testing.T, path string) {
			l, err := ledger.Open(t.Context(), path, ledger.Options{})
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			sqlFile("PRAGMA user_version = 2")(t, path)
		}, ledger.Options{}, "schema version 2 and this program knows 1"},
		{"another program's", sqlFile("CREATE TABLE t (x); PRAGMA user_version = 1"), ledger.Options{}, "another program"},
		{"another program's mark", sqlFile("PRAGMA application_id = 7"), ledger.Options{}, "another program"},
		{"no database", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, ledger.Options{}, "not a database"},
		{"no directory", func(t *testing.T, path string) {
			if err := os.Remove(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
		}, ledger.Options{}, "no such file"},
		{"bad option", func(*testing.T, string) {}, ledger.Options{HoldTTL: -1}, "hold ttl"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d", "ledger.db")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			tt.prepare(t, path)
			l, err := ledger.Open(t.Context(), path, tt.opt)
			if err == nil {
				l.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %q does not say %q and the path", err, tt.want)
			}
			if entries, _ := os.ReadDir(path + "-owners"); len(entries) != 0 {
				t.Errorf("owner files are left behind: %v", entries)
			}
		})
	}
}

func TestOpenTogether(t *testing.T) {
	path := dbPath(t)
	errs := make(chan error)
	for range 6 {
		go func() {
			l, err := ledger.Open(t.Context(), path, ledger.Options{})
			if err == nil {
				err = errors.Join(l.Credit(t.Context(), "acme", 1, "once"), l.Close())
			}
			errs <- err
		}()
	}
	for range 6 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	wantBalance(t, openAt(t, path, ledger.Options{}), "acme", 1, 0, 0)
}

func TestFileModeAndName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a ?b=c#d%41&é.db")
	l := openAt(t, path, ledger.Options{})
	credit(t, l, "acme", 1)
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", filepath.Base(name), info.Mode())
		}
	}
	info, err := os.Stat(path + "-owners")
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("owner directory: %v, %v", info, err)
	}
}
