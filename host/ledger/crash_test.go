package ledger_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
)

// A process killed after Started owes the run, once; one killed before owes nothing.
func TestCrash(t *testing.T) {
	tests := []struct {
		name, role, payer string
		records           int
		spent             int64
	}{
		{"after start", "start", "acme", 1, 1},
		{"before start", "reserve", "acme", 0, 0},
		{"after start, unbilled", "start", "", 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := dbPath(t)
			l := openAt(t, path, ledger.Options{})
			credit(t, l, "acme", 5)
			p := spawn(t, tt.role, path, tt.payer, "run-1")
			if got := p.line(); got != "ready" {
				t.Fatalf("child says %q", got)
			}
			held := int64(0)
			if tt.payer != "" {
				held = 1
			}
			wantBalance(t, l, "acme", 5, held, 0)

			// While it lives, opening the file leaves its charge alone.
			openAt(t, path, ledger.Options{})
			wantBalance(t, l, "acme", 5, held, 0)

			p.kill9()
			for range 2 { // the second time there is nothing left to settle
				openAt(t, path, ledger.Options{})
				wantBalance(t, l, "acme", 5-tt.spent, 0, tt.spent)
				got := usage(t, l, ledger.Filter{})
				if len(got) != tt.records {
					t.Fatalf("usage = %+v, want %d records", got, tt.records)
				}
				if len(got) == 0 {
					continue
				}
				want := host.Usage{
					RunID: "run-1", Org: "acme", User: "ann", Project: "p", Session: "s1", RequestID: "q1",
					Act: host.ActRun, Cents: tt.spent, Outcome: "lost",
				}
				if got[0].Usage != want || got[0].Payer != host.Payer(tt.payer) {
					t.Errorf("usage = %+v\nwant    %+v", got[0].Usage, want)
				}
			}
		})
	}
}

// A dead process leaves no file of its own once somebody has settled it.
func TestCrashLeavesNoOwnerFile(t *testing.T) {
	path := dbPath(t)
	p := spawn(t, "start", path, "", "run-1")
	p.line()
	p.kill9()
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := ownerFiles(t, path); n != 1 {
		t.Errorf("%d owner files while open", n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := ownerFiles(t, path); n != 0 {
		t.Errorf("%d owner files after close", n)
	}
}

func ownerFiles(t *testing.T, path string) int {
	t.Helper()
	entries, err := os.ReadDir(path + "-owners")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Close gives back what has not started and keeps what has for the next Open.
func TestCloseWithOpenCharges(t *testing.T) {
	path := dbPath(t)
	watch := openAt(t, path, ledger.Options{})
	credit(t, watch, "acme", 10)
	l, err := ledger.Open(t.Context(), path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	idle, running := reserve(t, l, "acme", 2), reserve(t, l, "acme", 3)
	start(t, running, host.Usage{RunID: "r", Org: "acme"})
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantBalance(t, watch, "acme", 10, 3, 0)
	if err := running.Debit(t.Context(), host.Usage{RunID: "r"}); err == nil {
		t.Error("Debit succeeds on a closed ledger")
	}
	idle.Release()
	running.Release()
	openAt(t, path, ledger.Options{})
	wantBalance(t, watch, "acme", 7, 0, 3)
	if got := usage(t, watch, ledger.Filter{}); len(got) != 1 || got[0].Outcome != "lost" {
		t.Errorf("usage = %+v", got)
	}
}

// Two processes with 8 goroutines each spend one wallet to the last cent and
// no further.
func TestTwoProcesses(t *testing.T) {
	path := dbPath(t)
	l := openAt(t, path, ledger.Options{})
	const cents = 40
	credit(t, l, "acme", cents)
	a, b := spawn(t, "hammer", path, "a"), spawn(t, "hammer", path, "b")
	for _, p := range []*process{a, b} {
		if _, err := p.stdin.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
	}
	sum := 0
	for _, p := range []*process{a, b} {
		n, err := strconv.Atoi(p.line())
		if err != nil {
			t.Fatal(err)
		}
		sum += n
		p.finish()
	}
	if sum != cents {
		t.Errorf("%d acts passed on %d cents", sum, cents)
	}
	wantBalance(t, l, "acme", 0, 0, cents)
	if n := len(usage(t, l, ledger.Filter{})); n != cents {
		t.Errorf("%d records", n)
	}
}
