package ledger_test

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
)

// BenchmarkCharge is what billing adds to a run, beside the free alternative:
//
//	go test -run - -bench Charge ./host/ledger
func BenchmarkCharge(b *testing.B) {
	l, err := ledger.Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"), ledger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	if err := l.Credit(b.Context(), "acme", 1<<50, "bench"); err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name    string
		billing host.Billing
		payer   host.Payer
	}{
		{"ledger", l, "acme"},
		{"ledger-unbilled", l, ""},
		{"free", host.Free, "acme"},
	} {
		run := func(b *testing.B, id string) {
			c, err := bench.billing.Reserve(b.Context(), bench.payer, host.ActRun, 1)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Release()
			u := host.Usage{RunID: bench.name + id, Org: "acme", Session: "s"}
			if s, ok := c.(host.ChargeStarter); ok {
				if err := s.Started(b.Context(), u); err != nil {
					b.Fatal(err)
				}
			}
			u.Outcome = "exit"
			if err := c.Debit(b.Context(), u); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(bench.name, func(b *testing.B) {
			n := 0
			for b.Loop() {
				n++
				run(b, strconv.Itoa(n))
			}
		})
	}
}

func BenchmarkReserveRelease(b *testing.B) {
	l, err := ledger.Open(b.Context(), filepath.Join(b.TempDir(), "ledger.db"), ledger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	if err := l.Credit(b.Context(), "acme", 1<<50, "bench"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c, err := l.Reserve(b.Context(), "acme", host.ActRun, 1)
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
	}
}
