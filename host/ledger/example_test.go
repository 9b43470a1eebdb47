package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/caisson-run/caisson/host"
	"github.com/caisson-run/caisson/host/ledger"
)

// One paid run, and one that the wallet cannot pay any more.
func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	books, err := ledger.Open(ctx, filepath.Join(dir, "ledger.db"), ledger.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer books.Close()
	if err := books.Credit(ctx, "acme", 1, "invoice-2026-001"); err != nil {
		log.Fatal(err)
	}

	charge, err := books.Reserve(ctx, "acme", host.ActRun, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer charge.Release() // does nothing once the run is debited
	run := host.Usage{RunID: "run-1", Org: "acme", Session: "s1"}
	if err := charge.(host.ChargeStarter).Started(ctx, run); err != nil {
		log.Fatal(err)
	}
	run.Outcome, run.ExitCode = "exit", 3
	if err := charge.Debit(ctx, run); err != nil {
		log.Fatal(err)
	}

	_, err = books.Reserve(ctx, "acme", host.ActRun, 1)
	fmt.Println("second run refused:", errors.Is(err, host.ErrInsufficient))
	for r, err := range books.Usage(ctx, ledger.Filter{Org: "acme"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.RunID, r.Cents, r.Outcome, r.ExitCode)
	}
	// Output:
	// second run refused: true
	// run-1 1 exit 3
}
