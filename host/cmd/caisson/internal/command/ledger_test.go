package command

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
)

func TestLedger(t *testing.T) {
	exe, _ := installed(t)
	data := filepath.Join(t.TempDir(), "data")
	in := invocation{exe: exe}
	do := func(want int, args ...string) result {
		t.Helper()
		r := in.run(t, append([]string{"ledger"}, append(args, "--data", data)...)...)
		if r.code != want {
			t.Errorf("ledger %v: exit %d, stderr %q; want %d", args, r.code, r.stderr, want)
		}
		return r
	}
	if r := do(0, "credit", "acme", "100", "--ref", "p1"); r.stdout != "credited acme with 100 cents (ref p1); balance 100\n" {
		t.Errorf("credit: %q", r.stdout)
	}
	if r := do(0, "credit", "acme", "100", "--ref", "p1"); r.stdout != "already credited under ref p1; nothing added; balance 100\n" {
		t.Errorf("the same payment again: %q", r.stdout)
	}
	if r := do(exitFailure, "credit", "acme", "7", "--ref", "p1"); !strings.Contains(r.stderr, "another ref") {
		t.Errorf("a ref of another payment: %q", r.stderr)
	}
	do(0, "credit", "acme", "1") // a random ref each
	do(0, "credit", "acme", "1")
	do(0, "cap", "acme", "50")
	if r := do(0, "balance", "acme"); r.stdout != "acme: balance 102 cents, held 0, spent 0, may spend 50 cents in total\n" {
		t.Errorf("balance: %q", r.stdout)
	}
	do(0, "cap", "acme", "none")
	if r := do(0, "balance", "acme", "--json"); !strings.Contains(r.stdout, `"balance": 102`) || strings.Contains(r.stdout, "cap") {
		t.Errorf("balance --json: %q", r.stdout)
	}
	if r := do(0, "balance", "nobody"); !strings.Contains(r.stdout, "balance 0 cents") {
		t.Errorf("an unknown wallet: %q", r.stdout)
	}

	record(t, filepath.Join(data, "ledger.db"))
	golden(t, "ledger-usage.txt", do(0, "usage").stdout)
	golden(t, "ledger-usage.json", do(0, "usage", "--json", "--org", "acme").stdout)
	if r := do(0, "usage", "--org", "other", "--json"); r.stdout != "" {
		t.Errorf("another organisation's usage: %q", r.stdout)
	}
	if r := do(0, "usage", "--since", "1h", "--json"); r.stdout != "" {
		t.Errorf("usage before --since: %q", r.stdout)
	}
	var one map[string]any
	if err := json.Unmarshal([]byte(strings.SplitN(do(0, "usage", "--json").stdout, "\n", 2)[0]), &one); err != nil {
		t.Errorf("usage --json is not JSON: %v", err)
	}
}

// record puts two acts into the ledger at path, as a server would.
func record(t *testing.T, path string) {
	t.Helper()
	now := func() time.Time { return time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC) }
	l, err := ledger.Open(t.Context(), path, ledger.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	for i, payer := range []host.Payer{"acme", ""} {
		c, err := l.Reserve(t.Context(), payer, host.ActRun, 3)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Debit(t.Context(), host.Usage{
			RunID: []string{"run1", "run2"}[i], Org: "acme", User: "u1", Session: "s1", Act: host.ActRun, Cents: 3,
			Wall: 1500 * time.Millisecond, CPU: 700 * time.Microsecond, BytesIn: 10, BytesOut: 20, Outcome: "exit", ExitCode: 3,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
