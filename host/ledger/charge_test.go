package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
)

func TestReserveAuthorises(t *testing.T) {
	tests := []struct {
		name    string
		credit  int64
		cap     int64 // ledger.NoCap: none
		held    int64
		reserve int64
		want    error
	}{
		{"covered", 10, ledger.NoCap, 0, 10, nil},
		{"beside a hold", 10, ledger.NoCap, 9, 1, nil},
		{"one too many", 10, ledger.NoCap, 0, 11, host.ErrInsufficient},
		{"one too many beside a hold", 10, ledger.NoCap, 9, 2, host.ErrInsufficient},
		{"unknown wallet", 0, ledger.NoCap, 0, 1, host.ErrInsufficient},
		{"largest amount", 10, ledger.NoCap, 1, math.MaxInt64, host.ErrInsufficient},
		{"up to the cap", 10, 5, 0, 5, nil},
		{"over the cap", 10, 5, 0, 6, host.ErrCap},
		{"holds count for the cap", 10, 5, 4, 2, host.ErrCap},
		{"cap of zero", 10, 0, 0, 1, host.ErrCap},
		{"balance first", 1, 0, 0, 2, host.ErrInsufficient},
		{"free", 0, ledger.NoCap, 0, 0, nil},
		{"negative is free", 0, ledger.NoCap, 0, math.MinInt64, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openAt(t, dbPath(t), ledger.Options{})
			if tt.credit > 0 {
				credit(t, l, "acme", tt.credit)
			}
			if err := l.SetCap(t.Context(), "acme", tt.cap); err != nil {
				t.Fatal(err)
			}
			if tt.held > 0 {
				defer reserve(t, l, "acme", tt.held).Release()
			}
			c, err := l.Reserve(t.Context(), "acme", host.ActRun, tt.reserve)
			if !errors.Is(err, tt.want) {
				t.Fatalf("Reserve = %v, want %v", err, tt.want)
			}
			if err != nil {
				wantBalance(t, l, "acme", tt.credit, tt.held, 0)
				return
			}
			wantBalance(t, l, "acme", tt.credit, tt.held+max(tt.reserve, 0), 0)
			c.Release()
			wantBalance(t, l, "acme", tt.credit, tt.held, 0)
		})
	}
}

func TestDebitRecordsEverything(t *testing.T) {
	now := newClock()
	l := openAt(t, dbPath(t), ledger.Options{Now: now.Now})
	credit(t, l, "acme", 10)
	c := reserve(t, l, "acme", 3)
	u := host.Usage{
		RunID: "run-1", Org: "acme", User: "ann", Project: "p", Session: "s1", RequestID: "q1",
		Act: host.ActRun, Cents: 3, Wall: 1500 * time.Millisecond, CPU: 700 * time.Microsecond, Fuel: 12345,
		PeakMemory: 1 << 20, BytesIn: 10, BytesOut: 20, Outcome: "exit", ExitCode: 3,
	}
	if err := c.Debit(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, l, "acme", 7, 0, 3)
	want := ledger.Record{ID: 1, Time: now.Now(), Payer: "acme", Usage: u}
	if got := usage(t, l, ledger.Filter{}); len(got) != 1 || got[0] != want {
		t.Errorf("usage = %+v\nwant %+v", got, want)
	}
}

// A plugin's figures cannot lower sums, and the amount held is the amount paid
// whatever the caller puts into Usage.
func TestDebitDistrustsFigures(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	credit(t, l, "acme", 10)
	c := reserve(t, l, "acme", 3)
	err := c.Debit(t.Context(), host.Usage{
		RunID: "r", Act: host.ActLease, Cents: -100, Wall: -1, CPU: math.MinInt64, Fuel: math.MaxUint64,
		PeakMemory: -1, BytesIn: -1, BytesOut: -1, Outcome: "exit\x00'; DROP TABLE usage; --", ExitCode: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	wantBalance(t, l, "acme", 7, 0, 3)
	got := usage(t, l, ledger.Filter{})
	if len(got) != 1 {
		t.Fatalf("usage = %+v", got)
	}
	want := host.Usage{RunID: "r", Act: host.ActRun, Cents: 3, Fuel: math.MaxInt64, Outcome: got[0].Outcome, ExitCode: -1}
	if got[0].Usage != want {
		t.Errorf("usage = %+v\nwant    %+v", got[0].Usage, want)
	}
}

// Acts that nobody pays are recorded all the same, with 0 cents.
func TestUnbilledIsRecorded(t *testing.T) {
	for _, tt := range []struct {
		name  string
		payer host.Payer
		cents int64
	}{
		{"no payer", "", 5},
		{"no price", "acme", 0},
		{"neither", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := openAt(t, dbPath(t), ledger.Options{})
			credit(t, l, "acme", 10)
			c := reserve(t, l, tt.payer, tt.cents)
			start(t, c, host.Usage{RunID: "r", Org: "default", Session: "s"})
			if err := c.Debit(t.Context(), host.Usage{RunID: "r", Cents: tt.cents, Outcome: "exit"}); err != nil {
				t.Fatal(err)
			}
			c.Release()
			wantBalance(t, l, "acme", 10, 0, 0)
			got := usage(t, l, ledger.Filter{})
			if len(got) != 1 || got[0].Cents != 0 || got[0].Org != "default" || got[0].Session != "s" || got[0].Payer != tt.payer {
				t.Errorf("usage = %+v", got)
			}
		})
	}
}

// An unbilled act that never ran leaves nothing.
func TestUnbilledRelease(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	c := reserve(t, l, "", 1)
	c.Release()
	if err := c.Debit(t.Context(), host.Usage{RunID: "r"}); err != nil {
		t.Fatal(err)
	}
	if got := usage(t, l, ledger.Filter{}); len(got) != 0 {
		t.Errorf("usage = %+v", got)
	}
}

func TestOneOfDebitAndRelease(t *testing.T) {
	debit := func(t *testing.T, c host.Charge) {
		if err := c.Debit(t.Context(), host.Usage{RunID: "r", Outcome: "exit"}); err != nil {
			t.Error(err)
		}
	}
	release := func(_ *testing.T, c host.Charge) { c.Release() }
	begin := func(t *testing.T, c host.Charge) { start(t, c, host.Usage{RunID: "r"}) }
	tests := []struct {
		name    string
		steps   []func(*testing.T, host.Charge)
		spent   int64
		outcome string
	}{
		{"debit then release", []func(*testing.T, host.Charge){debit, release}, 1, "exit"},
		{"release then debit", []func(*testing.T, host.Charge){release, debit}, 0, ""},
		{"debit twice", []func(*testing.T, host.Charge){debit, debit}, 1, "exit"},
		{"release twice", []func(*testing.T, host.Charge){release, release}, 0, ""},
		{"start, debit, release", []func(*testing.T, host.Charge){begin, begin, debit, release}, 1, "exit"},
		{"start, release, debit", []func(*testing.T, host.Charge){begin, release, debit}, 1, "lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := openAt(t, dbPath(t), ledger.Options{})
			credit(t, l, "acme", 5)
			c := reserve(t, l, "acme", 1)
			for _, step := range tt.steps {
				step(t, c)
			}
			wantBalance(t, l, "acme", 5-tt.spent, 0, tt.spent)
			got := usage(t, l, ledger.Filter{})
			if int64(len(got)) != tt.spent || (len(got) == 1 && got[0].Outcome != tt.outcome) {
				t.Errorf("usage = %+v, want outcome %q", got, tt.outcome)
			}
			if err := c.(host.ChargeStarter).Started(t.Context(), host.Usage{RunID: "r"}); err == nil {
				t.Error("Started succeeds on a settled charge")
			}
		})
	}
}

// Whatever the caller calls Debit with, the run id of Started is the key; and
// without any id the charge itself is.
func TestRunID(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	credit(t, l, "acme", 5)
	c := reserve(t, l, "acme", 1)
	start(t, c, host.Usage{RunID: "a"})
	if err := c.Debit(t.Context(), host.Usage{RunID: "b"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := reserve(t, l, "acme", 1).Debit(t.Context(), host.Usage{}); err != nil {
			t.Fatal(err)
		}
	}
	wantBalance(t, l, "acme", 2, 0, 3)
	got := usage(t, l, ledger.Filter{})
	if len(got) != 3 || got[0].RunID != "a" || got[1].RunID == "" || got[1].RunID == got[2].RunID {
		t.Errorf("usage = %+v", got)
	}
}

func TestDebitIsIdempotentByRunID(t *testing.T) {
	path := dbPath(t)
	a, b := openAt(t, path, ledger.Options{}), openAt(t, path, ledger.Options{})
	credit(t, a, "acme", 10)
	var wg sync.WaitGroup
	for i := range 8 {
		l := []*ledger.Ledger{a, b}[i%2]
		c := reserve(t, l, "acme", 1)
		wg.Go(func() {
			if err := c.Debit(t.Context(), host.Usage{RunID: "same", Outcome: "exit"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantBalance(t, a, "acme", 9, 0, 1)
	// Another act under the same id is another matter.
	c, err := a.Reserve(t.Context(), "acme", host.ActLease, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Debit(t.Context(), host.Usage{RunID: "same"}); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, b, "acme", 7, 0, 3)
	if got := usage(t, b, ledger.Filter{}); len(got) != 2 {
		t.Errorf("usage = %+v", got)
	}
}

func TestHoldExpires(t *testing.T) {
	now := newClock()
	l := openAt(t, dbPath(t), ledger.Options{Now: now.Now, HoldTTL: time.Minute})
	credit(t, l, "acme", 1)
	forgotten := reserve(t, l, "acme", 1)
	now.Advance(time.Minute - time.Millisecond)
	if _, err := l.Reserve(t.Context(), "acme", host.ActRun, 1); !errors.Is(err, host.ErrInsufficient) {
		t.Fatalf("Reserve beside a live hold = %v", err)
	}
	now.Advance(time.Millisecond)
	wantBalance(t, l, "acme", 1, 0, 0)
	second := reserve(t, l, "acme", 1)

	// A debt does not expire.
	start(t, second, host.Usage{RunID: "second"})
	now.Advance(24 * time.Hour)
	wantBalance(t, l, "acme", 1, 1, 0)
	if _, err := l.Reserve(t.Context(), "acme", host.ActRun, 1); !errors.Is(err, host.ErrInsufficient) {
		t.Fatalf("Reserve beside a debt = %v", err)
	}
	if err := second.Debit(t.Context(), host.Usage{RunID: "second"}); err != nil {
		t.Fatal(err)
	}
	// The forgotten one did run after all: its work is paid, the balance is in debt.
	start(t, forgotten, host.Usage{RunID: "first"})
	wantBalance(t, l, "acme", 0, 1, 1)
	if err := forgotten.Debit(t.Context(), host.Usage{RunID: "first"}); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, l, "acme", -1, 0, 2)
	if _, err := l.Reserve(t.Context(), "acme", host.ActRun, 1); !errors.Is(err, host.ErrInsufficient) {
		t.Fatalf("Reserve in debt = %v", err)
	}
}

// P=64 reservations of one cent at a balance of one cent: exactly one passes.
func TestOneCentHammer(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	credit(t, l, "acme", 1)
	var passed atomic.Int32
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			c, err := l.Reserve(t.Context(), "acme", host.ActRun, 1)
			if err != nil {
				if !errors.Is(err, host.ErrInsufficient) {
					t.Error(err)
				}
				return
			}
			passed.Add(1)
			if err := c.Debit(t.Context(), host.Usage{RunID: fmt.Sprint("r", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if passed.Load() != 1 {
		t.Errorf("%d passed", passed.Load())
	}
	wantBalance(t, l, "acme", 0, 0, 1)
}

// Debits, releases and starts of N=60 charges race from P=5 goroutines each;
// every charge ends either paid and recorded once, or neither.
func TestSettleHammer(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	const charges = 60
	credit(t, l, "acme", charges)
	var wg sync.WaitGroup
	for i := range charges {
		c := reserve(t, l, "acme", 1)
		u := host.Usage{RunID: fmt.Sprint("r", i), Outcome: "exit"}
		gun := make(chan struct{})
		for range 2 {
			wg.Go(func() { <-gun; c.Release() })
			wg.Go(func() {
				<-gun
				if err := c.Debit(t.Context(), u); err != nil {
					t.Error(err)
				}
			})
		}
		if i%2 == 0 {
			wg.Go(func() { <-gun; _ = c.(host.ChargeStarter).Started(t.Context(), u) })
		}
		close(gun)
	}
	wg.Wait()
	records := int64(len(usage(t, l, ledger.Filter{})))
	wantBalance(t, l, "acme", charges-records, 0, records)
	// With the records of what was released after its start, nothing is left over.
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReserveCanceled(t *testing.T) {
	l := openAt(t, dbPath(t), ledger.Options{})
	credit(t, l, "acme", 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Reserve(ctx, "acme", host.ActRun, 1)
	if !errors.Is(err, host.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("Reserve = %v", err)
	}
	wantBalance(t, l, "acme", 5, 0, 0)
}
