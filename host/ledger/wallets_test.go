package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
)

func TestCredit(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	tests := []struct {
		name    string
		wallet  host.Payer
		cents   int64
		ref     string
		balance int64 // of acme, afterwards
		want    string
	}{
		{"first", "acme", 10, "a", 10, ""},
		{"repeated", "acme", 10, "a", 10, ""},
		{"second", "acme", 5, "b", 15, ""},
		{"other amount", "acme", 11, "a", 15, "used for 10 cents"},
		{"other wallet", "umbrella", 10, "a", 15, "used for 10 cents"},
		{"no wallet", "", 10, "c", 15, "wallet is empty"},
		{"no ref", "acme", 10, "", 15, "ref is empty"},
		{"zero", "acme", 0, "c", 15, "cents 0"},
		{"negative", "acme", -1, "c", 15, "cents -1"},
		{"too much", "acme", 1<<53 + 1, "c", 15, "cents"},
		{"too much in sum", "acme", 1 << 53, "c", 15, "would pass"},
		{"long wallet", host.Payer(strings.Repeat("x", 257)), 1, "c", 15, "longer than 256"},
		{"line break", "acme\n", 1, "c", 15, "printable"},
		{"space around", " acme", 1, "c", 15, "printable"},
		{"not text", "acme\xff", 1, "c", 15, "printable"},
		{"the failed ref is still free", "acme", 1, "c", 16, ""},
	}
	for _, tt := range tests {
		err := l.Credit(t.Context(), tt.wallet, tt.cents, tt.ref)
		if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: Credit = %v, want %q", tt.name, err, tt.want)
		}
		wantBalance(t, l, "acme", tt.balance, 0, 0)
	}
	wantBalance(t, l, "umbrella", 0, 0, 0)
}

func TestCreditOnce(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	for _, tt := range []struct {
		ref   string
		cents int64
		added bool
		fails bool
	}{{"a", 10, true, false}, {"a", 10, false, false}, {"a", 11, false, true}, {"b", 10, true, false}, {"b", 10, false, false}} {
		added, err := l.CreditOnce(t.Context(), "acme", tt.cents, tt.ref)
		if added != tt.added || (err != nil) != tt.fails {
			t.Errorf("CreditOnce(%s, %d) = %v, %v", tt.ref, tt.cents, added, err)
		}
	}
	wantBalance(t, l, "acme", 20, 0, 0)
}

func TestSetCap(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	for _, tt := range []struct {
		wallet host.Payer
		cents  int64
		ok     bool
	}{
		{"acme", 5, true},
		{"acme", 0, true},
		{"acme", ledger.NoCap, true},
		{"acme", -2, false},
		{"acme", 1<<53 + 1, false},
		{"", 5, false},
	} {
		if err := l.SetCap(t.Context(), tt.wallet, tt.cents); (err == nil) != tt.ok {
			t.Errorf("SetCap(%q, %d) = %v", tt.wallet, tt.cents, err)
		}
		if !tt.ok {
			continue
		}
		b, err := l.Balance(t.Context(), tt.wallet)
		if err != nil || b.Cap != tt.cents {
			t.Errorf("cap = %d, %v; want %d", b.Cap, err, tt.cents)
		}
	}
}

func TestStanding(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	credit(t, l, "held", 1)
	defer reserve(t, l, "held", 1).Release()
	credit(t, l, "capped", 10)
	if err := reserve(t, l, "capped", 3).Debit(t.Context(), host.Usage{RunID: "r"}); err != nil {
		t.Fatal(err)
	}
	if err := l.SetCap(t.Context(), "capped", 3); err != nil {
		t.Fatal(err)
	}
	credit(t, l, "spent", 1)
	if err := reserve(t, l, "spent", 1).Debit(t.Context(), host.Usage{RunID: "s"}); err != nil {
		t.Fatal(err)
	}
	for payer, want := range map[host.Payer]error{
		"": nil, "held": nil, "capped": host.ErrCap, "spent": host.ErrInsufficient, "nobody": host.ErrInsufficient,
	} {
		if err := l.Standing(t.Context(), payer); !errors.Is(err, want) {
			t.Errorf("Standing(%q) = %v, want %v", payer, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Standing(ctx, "held"); !errors.Is(err, host.ErrUnavailable) {
		t.Errorf("Standing with a canceled context = %v", err)
	}
}

func TestUsageFilter(t *testing.T) {
	now := newClock()
	begin := now.Now()
	l := openAt(t, dbPath(t), ledger.Options{Now: now.Now})
	for i, u := range []host.Usage{
		{RunID: "a", Org: "acme", Session: "s1"},
		{RunID: "b", Org: "acme", Session: "s2"},
		{RunID: "c", Org: "umbrella", Session: "s1"},
	} {
		payer := host.Payer([]string{"acme", "", "umbrella"}[i])
		if err := reserve(t, l, payer, 0).Debit(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		now.Advance(time.Minute)
	}
	lease, err := l.Reserve(t.Context(), "", host.ActLease, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Debit(t.Context(), host.Usage{RunID: "d", Org: "acme"}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		filter ledger.Filter
		want   string
	}{
		{"all", ledger.Filter{}, "abcd"},
		{"org", ledger.Filter{Org: "acme"}, "abd"},
		{"org that is SQL", ledger.Filter{Org: "' OR 1=1 --"}, ""},
		{"payer", ledger.Filter{Payer: "umbrella"}, "c"},
		{"session", ledger.Filter{Session: "s1"}, "ac"},
		{"org and session", ledger.Filter{Org: "acme", Session: "s1"}, "a"},
		{"run", ledger.Filter{RunID: "b"}, "b"},
		{"act", ledger.Filter{Act: host.ActLease}, "d"},
		{"since", ledger.Filter{Since: begin.Add(time.Minute)}, "bcd"},
		{"until", ledger.Filter{Until: begin.Add(time.Minute)}, "a"},
		{"after", ledger.Filter{After: 2}, "cd"},
	} {
		got := ""
		for _, r := range usage(t, l, tt.filter) {
			got += r.RunID
		}
		if got != tt.want {
			t.Errorf("%s: runs %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestUsagePages(t *testing.T) {
	path := dbPath(t)
	l := openAt(t, path, ledger.Options{})
	run(t, raw(t, path), `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1203)
		INSERT INTO usage (at, act, run_id, wallet, org, user, project, session, request_id,
			cents, wall, cpu, fuel, peak_memory, bytes_in, bytes_out, outcome, exit_code)
		SELECT i, 'run', 'r' || i, '', 'acme', '', '', '', '', 0, 0, 0, 0, 0, 0, 0, 'exit', 0 FROM n`)
	for i, r := range usage(t, l, ledger.Filter{Org: "acme"}) {
		if r.RunID != fmt.Sprint("r", i+1) {
			t.Fatalf("record %d is %s", i, r.RunID)
		}
	}
	n := 0
	for range l.Usage(t.Context(), ledger.Filter{}) {
		if n++; n == 700 {
			break
		}
	}
	if n != 700 {
		t.Errorf("%d records before the break", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var failed error
	n = 0
	for _, err := range l.Usage(ctx, ledger.Filter{}) {
		if n++; n == 3 {
			cancel()
		}
		failed = err
	}
	if !errors.Is(failed, context.Canceled) || n != 501 {
		t.Errorf("after cancel: %d records, last error %v", n, failed)
	}
	cancel()
}

func TestUsageIsAppendOnly(t *testing.T) {
	path := dbPath(t)
	l := openAt(t, path, ledger.Options{})
	if err := reserve(t, l, "", 0).Debit(t.Context(), host.Usage{RunID: "r"}); err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	for _, q := range []string{"UPDATE usage SET cents = 0", "DELETE FROM usage"} {
		if _, err := db.ExecContext(t.Context(), q); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", q, err)
		}
	}
}
